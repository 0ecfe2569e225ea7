/**
 * Reads and writes the process backend's directory. Only this file knows its layout:
 *
 *     instances/<namespace>.<name>/   0700: the SDK configuration contains a secret
 *       instance.json                 the host's record (`record.ts`)
 *       gsdkConfig.json               the game SDK's configuration
 *       GameLogs/ GameCertificates/ GameSharedContent/
 *       run-<nonce>/                  written by the supervisor (`supervisor.ts`)
 *     logs/<namespace>.<name>.log     the game's stdout and stderr; kept after the instance is removed
 *
 * The host replaces files by renaming, so a host that is killed at any moment leaves either the complete old or the complete
 * new file.
 */
import { randomUUID } from 'node:crypto'
import { accessSync, constants, readdirSync, readFileSync } from 'node:fs'
import { mkdir, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { FleetError, messageOf } from '../../src/contracts/errors.js'
import { codeOf } from '../../src/platform/error-code.js'
import { makeDirectories } from '../../src/platform/make-directories.js'
import type { Ref } from '../../src/rules/model/resources.js'
import { dottedName, parseDottedName } from '../shared/refs.js'
import { type InstanceRecord, readRecord } from './record.js'

export interface GameFolders {
  readonly logs: string
  readonly certificates: string
  readonly sharedContent: string
}

/** An instance directory found on disk. `record` is missing if a creation or removal was interrupted. */
export interface FoundInstance {
  readonly directory: string
  readonly record?: InstanceRecord | 'unreadable'
  /** Nonces of the instance's runs, which identify its processes if the record is lost. */
  readonly nonces: readonly string[]
}

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

  /** Creates missing directories. Rejects with `directory-unusable` if the directory is not writable. */
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
    return join(this.#instances, dottedName(ref))
  }

  runDirectory(ref: Ref, nonce: string): string {
    return join(this.directoryOf(ref), `${runPrefix}${nonce}`)
  }

  logOf(ref: Ref): string {
    return join(this.logs, `${dottedName(ref)}.log`)
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

  /** Creates the directories of a new instance, after removing anything left by an earlier instance with that name. */
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

  /** Removes an instance returned by `find`. */
  async discard(found: FoundInstance): Promise<void> {
    await removeInstance(found.directory)
  }

  /** Returns all instances on disk. Ignores other files and directories. */
  find(): readonly FoundInstance[] {
    const found: FoundInstance[] = []
    for (const entry of readdirSync(this.#instances, { withFileTypes: true })) {
      if (!entry.isDirectory() || parseDottedName(entry.name) === undefined) continue
      const directory = join(this.#instances, entry.name)
      const nonces = readdirSync(directory)
        .filter((name) => name.startsWith(runPrefix))
        .map((name) => name.slice(runPrefix.length))
      const record = readRecordFile(directory, entry.name)
      found.push({ directory, nonces, ...(record === undefined ? {} : { record }) })
    }
    return found
  }

  /** Classifies a failed operation: `directory-unusable` is permanent, `unavailable` may be temporary. */
  failure(error: unknown): FleetError {
    if (FleetError.is(error)) return error
    if (unusableCodes.has(codeOf(error))) {
      return new FleetError(
        'directory-unusable',
        `processBackend cannot use the directory ${this.#directory}: ${messageOf(error)}`,
        { cause: error },
      )
    }
    if (codeOf(error) === '') return new FleetError('internal', messageOf(error), { cause: error })
    return new FleetError('unavailable', `writing the server's files failed: ${messageOf(error)}`, { cause: error })
  }
}

const unusableCodes: ReadonlySet<string> = new Set(['EACCES', 'EPERM', 'EROFS', 'ENOTDIR', 'EEXIST', 'ELOOP'])

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

/** Deletes the record first, so that after a crash the next host recognizes a partial removal. */
async function removeInstance(directory: string): Promise<void> {
  await rm(join(directory, 'instance.json'), { recursive: true, force: true })
  await rm(directory, { recursive: true, force: true, maxRetries: 3 })
}

function readRecordFile(directory: string, name: string): FoundInstance['record'] {
  let text: string
  try {
    text = readFileSync(join(directory, 'instance.json'), 'utf8')
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined
    if (codeOf(error) === 'EISDIR' || codeOf(error) === 'EACCES') return 'unreadable'
    // Other errors, such as too many open files, do not mean that the record is invalid.
    throw error
  }
  const record = readRecord(text)
  return record && dottedName(record.ref) === name ? record : 'unreadable'
}
