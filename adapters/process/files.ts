/**
 * The directory of a process backend, and the only file that knows how it is laid out:
 *
 *     instances/<namespace>.<name>/   0700, since the game's configuration holds its secret
 *       instance.json                 what the host knows (`record.ts`)
 *       gsdkConfig.json               what the game's SDK reads
 *       GameLogs/ GameCertificates/ GameSharedContent/
 *       run-<nonce>/                  what the supervisor writes (`supervisor.ts`)
 *     logs/<namespace>.<name>.log     what the game writes to stdout and stderr; outlives the instance
 *
 * Every file of the host's appears by rename, so a kill at any moment leaves the old one or the new one.
 */
import { randomUUID } from 'node:crypto'
import { accessSync, constants, readdirSync, readFileSync } from 'node:fs'
import { mkdir, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { FleetError, messageOf } from '../../src/contracts/errors.js'
import { makeDirectories } from '../../src/platform/make-directories.js'
import type { Ref } from '../../src/rules/model/resources.js'
import { type InstanceRecord, readRecord } from './record.js'

export interface GameFolders {
  readonly logs: string
  readonly certificates: string
  readonly sharedContent: string
}

/** What is found in `instances`. `record` is absent when a creation or a removal was cut short. */
export interface FoundInstance {
  readonly directory: string
  readonly record?: InstanceRecord | 'unreadable'
  /** The nonces of the runs that it holds, for those whose record cannot tell. */
  readonly nonces: readonly string[]
}

const label = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/
const runPrefix = 'run-'

export class InstanceFiles {
  readonly #directory: string
  readonly #instances: string
  readonly logs: string

  constructor(directory: string) {
    this.#directory = directory
    this.#instances = join(directory, 'instances')
    this.logs = join(directory, 'logs')
  }

  /** Makes what is missing. Rejects with `directory-unusable` when nothing can be kept here. */
  async open(): Promise<void> {
    try {
      await makeDirectories(this.#instances, 0o700)
      await makeDirectories(this.logs, 0o700)
      for (const path of [this.#instances, this.logs])
        accessSync(path, constants.R_OK | constants.W_OK | constants.X_OK)
    } catch (error) {
      throw this.failure(error)
    }
  }

  directoryOf(ref: Ref): string {
    return join(this.#instances, fileNameOf(ref))
  }

  runDirectory(ref: Ref, nonce: string): string {
    return join(this.directoryOf(ref), `${runPrefix}${nonce}`)
  }

  logOf(ref: Ref): string {
    return join(this.logs, `${fileNameOf(ref)}.log`)
  }

  sdkConfigOf(ref: Ref): string {
    return join(this.directoryOf(ref), 'gsdkConfig.json')
  }

  foldersOf(ref: Ref): GameFolders {
    const directory = this.directoryOf(ref)
    return {
      logs: join(directory, 'GameLogs'),
      certificates: join(directory, 'GameCertificates'),
      sharedContent: join(directory, 'GameSharedContent'),
    }
  }

  /** An empty place for a new instance, whatever an earlier one of that name has left. */
  async prepare(ref: Ref, nonce: string): Promise<void> {
    await this.remove(ref)
    await mkdir(this.directoryOf(ref), { mode: 0o700 })
    const { logs, certificates, sharedContent } = this.foldersOf(ref)
    for (const folder of [logs, certificates, sharedContent, this.runDirectory(ref, nonce)]) {
      await mkdir(folder, { mode: 0o700 })
    }
  }

  async writeSdkConfig(ref: Ref, content: object): Promise<void> {
    await replace(this.sdkConfigOf(ref), content)
  }

  async writeRecord(record: InstanceRecord): Promise<void> {
    await replace(join(this.directoryOf(record.ref), 'instance.json'), record)
  }

  async remove(ref: Ref): Promise<void> {
    await removeInstance(this.directoryOf(ref))
  }

  /** Removes an instance by what `find` has returned. */
  async discard(found: FoundInstance): Promise<void> {
    await removeInstance(found.directory)
  }

  /** All instances on disk. Files and directories that are none of ours are left alone. */
  find(): readonly FoundInstance[] {
    const found: FoundInstance[] = []
    for (const entry of readdirSync(this.#instances, { withFileTypes: true })) {
      if (!entry.isDirectory() || refOf(entry.name) === undefined) continue
      const directory = join(this.#instances, entry.name)
      const nonces = readdirSync(directory)
        .filter((name) => name.startsWith(runPrefix))
        .map((name) => name.slice(runPrefix.length))
      const record = readRecordFile(directory, entry.name)
      found.push({ directory, nonces, ...(record === undefined ? {} : { record }) })
    }
    return found
  }

  /** What a failed write means to the caller: a directory that can never do, or one that may do later. */
  failure(error: unknown): FleetError {
    if (FleetError.is(error)) return error
    if (unusableCodes.has(codeOf(error))) {
      return new FleetError(
        'directory-unusable',
        `processBackend cannot keep its servers in ${this.#directory}: ${messageOf(error)}`,
        { cause: error },
      )
    }
    if (codeOf(error) === '') return new FleetError('internal', messageOf(error), { cause: error })
    return new FleetError('unavailable', `the server's files cannot be written: ${messageOf(error)}`, { cause: error })
  }
}

/** Names become file names, so nothing but a label may pass. */
export function checkRef(ref: Ref): void {
  if (label.test(ref.namespace) && label.test(ref.name)) return
  throw new FleetError(
    'invalid',
    `an instance's namespace and name must be RFC 1123 labels, but are "${ref.namespace}" and "${ref.name}"`,
  )
}

/** A label holds no dot, so the first one parts the two. */
function fileNameOf(ref: Ref): string {
  return `${ref.namespace}.${ref.name}`
}

function refOf(fileName: string): Ref | undefined {
  const [namespace = '', name = '', ...rest] = fileName.split('.')
  return rest.length === 0 && label.test(namespace) && label.test(name) ? { namespace, name } : undefined
}

const unusableCodes: ReadonlySet<string> = new Set(['EACCES', 'EPERM', 'EROFS', 'ENOTDIR', 'EEXIST', 'ELOOP'])

/** The `code` of an error of Node's, or an empty string. */
export function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : ''
}

async function replace(path: string, content: object): Promise<void> {
  const temporary = `${path}.${randomUUID()}.tmp`
  try {
    await writeFile(temporary, `${JSON.stringify(content, undefined, 2)}\n`, { mode: 0o600 })
    await rename(temporary, path)
  } catch (error) {
    await rm(temporary, { force: true })
    throw error
  }
}

/** The record goes first: what is left by a kill in between is known to be rubbish. */
async function removeInstance(directory: string): Promise<void> {
  await rm(join(directory, 'instance.json'), { recursive: true, force: true })
  await rm(directory, { recursive: true, force: true, maxRetries: 3 })
}

function readRecordFile(directory: string, fileName: string): FoundInstance['record'] {
  let text: string
  try {
    text = readFileSync(join(directory, 'instance.json'), 'utf8')
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined
    if (codeOf(error) === 'EISDIR' || codeOf(error) === 'EACCES') return 'unreadable'
    // Too many open files, for one, says nothing of the record.
    throw error
  }
  const record = readRecord(text)
  return record && fileNameOf(record.ref) === fileName ? record : 'unreadable'
}
