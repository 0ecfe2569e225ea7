/**
 * Reads and writes the process backend's directory. Only this file knows its layout:
 *
 *     instances/<namespace>.<name>/   0700: the SDK configuration contains a secret
 *       instance.json                 the host's record (`record.ts`)
 *       gsdkConfig.json               the game SDK's configuration
 *       GameLogs/ GameLogs/Dumps/ GameCertificates/ GameSharedContent/
 *       home/ tmp/                    only if the game cannot use those of the host's user
 *       run-<nonce>/                  written by the supervisor (`supervisor.ts`), except for:
 *         stdin                       the game's standard input, if it is kept open (`stdin.ts`)
 *     logs/<namespace>.<name>.log     the game's stdout and stderr; kept after the instance is removed
 *     trash/<uuid>/                   what could not be removed; tried again when a host starts
 *
 * The host replaces files by renaming, so a host that is killed at any moment leaves either the complete old or the complete
 * new file.
 */
import { randomUUID } from 'node:crypto'
import { accessSync, constants, existsSync, readdirSync } from 'node:fs'
import { chmod, chown, mkdir, readdir, rename, rm, stat, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { FleetError, messageOf } from '../../../src/contracts/errors.js'
import type { Logger } from '../../../src/contracts/logger.js'
import { codeOf, makeDirectories, NotAFile, readRegularFile } from '../../../src/platform/files.js'
import type { GameFolders } from '../../../src/rules/game/sdk-config.js'
import type { Ref } from '../../../src/rules/model/resources.js'
import { dottedName, parseDottedName } from '../../shared/backend-lifecycle.js'
import { removeCgroup } from '../isolation/cgroups.js'
import type { GameUser } from '../isolation/users.js'
import { type InstanceRecord, readRecord } from './record.js'

/** An instance directory found on disk. `record` is missing if a creation or removal was interrupted. */
export interface FoundInstance {
  /** `<namespace>.<name>` */
  readonly name: string
  readonly directory: string
  readonly record?: InstanceRecord | 'unreadable'
  /** Nonces of the instance's runs, which identify its processes if the record is lost. */
  readonly nonces: readonly string[]
}

interface FolderOwner {
  /** Undefined if the game runs as the user of this host. */
  readonly user: GameUser | undefined
  /** Whether the game has a home and a temporary directory of its own. */
  readonly ownsFolders: boolean
}

const runPrefix = 'run-'

export class InstanceFiles {
  readonly directory: string
  readonly instances: string
  readonly #trash: string
  readonly #logger: Logger
  readonly logs: string

  constructor(directory: string, logger: Logger) {
    this.#logger = logger
    this.#trash = join(directory, 'trash')
    this.directory = directory
    this.instances = join(directory, 'instances')
    this.logs = join(directory, 'logs')
  }

  /**
   * Creates missing directories. Rejects with `directory-unusable` if the directory is not writable, or if games of other users
   * must enter it and cannot.
   */
  async open(isForOtherUsers: boolean): Promise<void> {
    try {
      await makeDirectories(this.instances, 0o700)
      await makeDirectories(this.logs, 0o700)
      for (const path of [this.instances, this.logs]) accessSync(path, constants.R_OK | constants.W_OK | constants.X_OK)
      if (isForOtherUsers) await this.#admitOtherUsers()
    } catch (error) {
      throw this.failure(error)
    }
  }

  /** Others may pass through to their own instance, but may not list what is there. */
  async #admitOtherUsers(): Promise<void> {
    for (const path of [this.directory, this.instances]) await chmod(path, 0o711)
    for (let at = dirname(this.directory); at !== dirname(at); at = dirname(at)) {
      if (((await stat(at)).mode & 0o001) !== 0) continue
      const message = `games that run as other users cannot enter ${at}, which contains processBackend's directory ${this.directory}; choose another directory`
      throw new FleetError('directory-unusable', message)
    }
  }

  directoryOf(ref: Ref): string {
    return join(this.instances, dottedName(ref))
  }

  runDirectory(ref: Ref, nonce: string): string {
    return join(this.directoryOf(ref), `${runPrefix}${nonce}`)
  }

  stdinOf(ref: Ref, nonce: string): string {
    return join(this.runDirectory(ref, nonce), 'stdin')
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
      dumps: join(directory, 'GameLogs', 'Dumps'),
      certificates: join(directory, 'GameCertificates'),
      sharedContent: join(directory, 'GameSharedContent'),
    }
  }

  /** Creates the directories of a new instance, after removing anything left by an earlier instance with that name. */
  async prepare(ref: Ref, nonce: string, { user, ownsFolders }: FolderOwner): Promise<void> {
    await this.remove(ref)
    const directory = this.directoryOf(ref)
    await mkdir(directory, { mode: 0o700 })
    await mkdir(this.runDirectory(ref, nonce), { mode: 0o700 })
    const { logs, dumps, certificates, sharedContent } = this.foldersOf(ref)
    const { home, temporary } = this.ownFoldersOf(ref)
    for (const folder of [logs, dumps, certificates, sharedContent, ...(ownsFolders ? [home, temporary] : [])]) {
      await mkdir(folder, { mode: 0o700 })
      if (user) await chown(folder, user.uid, user.gid)
    }
    if (!user) return
    // The game may pass through to its files, but must not replace the host's.
    await chown(directory, 0, user.gid)
    await chmod(directory, 0o710)
  }

  /** Creates what is missing of the files that a running supervisor writes to and that tell its process id. */
  async restore(ref: Ref, nonce: string, supervisor: number): Promise<void> {
    const runDirectory = this.runDirectory(ref, nonce)
    await rm(join(this.directoryOf(ref), 'instance.json'), { recursive: true, force: true })
    await mkdir(runDirectory, { mode: 0o700, recursive: true })
    for (const [name, content] of [
      ['pid', `${supervisor}\n`],
      ['claim', '\n'],
    ] as const) {
      await writeFile(join(runDirectory, name), content, { mode: 0o600, flag: 'wx' }).catch(ignoreExisting)
    }
  }

  /** Folders of a game that cannot use those of this host's user. */
  ownFoldersOf(ref: Ref): { readonly home: string; readonly temporary: string } {
    return { home: join(this.directoryOf(ref), 'home'), temporary: join(this.directoryOf(ref), 'tmp') }
  }

  async writeSdkConfig(ref: Ref, content: object, user: GameUser | undefined): Promise<void> {
    await replace(this.sdkConfigOf(ref), content)
    if (!user) return
    await chown(this.sdkConfigOf(ref), 0, user.gid)
    await chmod(this.sdkConfigOf(ref), 0o640)
  }

  async writeRecord(record: InstanceRecord): Promise<void> {
    await replace(join(this.directoryOf(record.ref), 'instance.json'), record)
  }

  /** Never rejects: a directory that cannot be removed is moved out of the way and reported. */
  async remove(ref: Ref): Promise<void> {
    await this.#remove(this.directoryOf(ref))
  }

  /** Removes an instance returned by `find`. Never rejects. */
  async discard(found: FoundInstance): Promise<void> {
    await this.#remove(found.directory)
  }

  /** Removes what earlier hosts could not remove. Never rejects. */
  async emptyTrash(): Promise<void> {
    try {
      for (const name of await readdir(this.#trash)) await removeTree(join(this.#trash, name))
    } catch (error) {
      if (codeOf(error) === 'ENOENT') return
      const fields = { err: error, directory: this.#trash }
      this.#logger.warn(fields, 'cannot remove the files of ended servers; remove the directory yourself')
    }
  }

  /** Deletes the record first, so that after a crash the next host recognizes a partial removal. */
  async #remove(directory: string): Promise<void> {
    try {
      for (const nonce of noncesIn(directory)) removeCgroup(nonce)
      await rm(join(directory, 'instance.json'), { recursive: true, force: true })
      await removeTree(directory)
    } catch (error) {
      const leftIn = await this.#moveToTrash(directory)
      const fields = { err: error, directory: leftIn }
      this.#logger.warn(fields, 'cannot remove the files of an ended server; will retry when the host next starts')
    }
  }

  /** Returns where the directory is now. */
  async #moveToTrash(directory: string): Promise<string> {
    const moved = join(this.#trash, randomUUID())
    try {
      await makeDirectories(this.#trash, 0o700)
      await rename(directory, moved)
      return moved
    } catch {
      // The next host finds the directory without a record, and removes it.
      return directory
    }
  }

  /** Returns all instances on disk. Ignores other files and directories. */
  find(): readonly FoundInstance[] {
    const found: FoundInstance[] = []
    for (const entry of readdirSync(this.instances, { withFileTypes: true })) {
      if (!entry.isDirectory() || parseDottedName(entry.name) === undefined) continue
      const directory = join(this.instances, entry.name)
      const nonces = noncesIn(directory)
      const record = readRecordFile(directory, entry.name)
      found.push({ name: entry.name, directory, nonces, ...(record === undefined ? {} : { record }) })
    }
    return found
  }

  /** Classifies a failed operation: `directory-unusable` is permanent, `unavailable` may be temporary. */
  failure(error: unknown): FleetError {
    if (FleetError.is(error)) return error
    if (unusableCodes.has(codeOf(error))) {
      return new FleetError(
        'directory-unusable',
        `processBackend cannot use the directory ${this.directory}: ${messageOf(error)}`,
        { cause: error },
      )
    }
    if (codeOf(error) === '') return new FleetError('internal', messageOf(error), { cause: error })
    return new FleetError('unavailable', `writing the server's files failed: ${messageOf(error)}`, { cause: error })
  }
}

/** The runs of an instance. */
function noncesIn(directory: string): readonly string[] {
  if (!existsSync(directory)) return []
  const names = readdirSync(directory).filter((name) => name.startsWith(runPrefix))
  return names.map((name) => name.slice(runPrefix.length))
}

const unusableCodes: ReadonlySet<string> = new Set([
  'NOT_A_FILE',
  'EACCES',
  'EPERM',
  'EROFS',
  'ENOTDIR',
  'EEXIST',
  'ELOOP',
])

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

function ignoreExisting(error: unknown): void {
  if (codeOf(error) !== 'EEXIST') throw error
}

function readRecordFile(directory: string, name: string): FoundInstance['record'] {
  let text: string
  try {
    text = readRegularFile(join(directory, 'instance.json'))
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined
    if (error instanceof NotAFile || codeOf(error) === 'EACCES') return 'unreadable'
    // Other errors, such as too many open files, do not mean that the record is invalid.
    throw error
  }
  const record = readRecord(text)
  return record && dottedName(record.ref) === name ? record : 'unreadable'
}

/** Far below the system's limit of 4096 bytes, so that a name of 255 bytes still fits. */
const maxPathBytes = 2048

/**
 * Removes a directory and its contents, including directories without permissions and paths that are longer than the system
 * accepts. Succeeds if the directory does not exist. Rejects with the system's error, for example for an immutable file.
 */
export async function removeTree(path: string): Promise<void> {
  try {
    // Retries would multiply with the depth of the tree.
    await rm(path, { recursive: true, force: true })
  } catch {
    await makeRemovable(Buffer.from(path))
    await rm(path, { recursive: true, force: true, maxRetries: 3 })
  }
}

/** Works with bytes, because names need not be valid UTF-8. */
async function makeRemovable(top: Buffer): Promise<void> {
  const directories = [top]
  for (let directory = directories.pop(); directory; directory = directories.pop()) {
    await permit(directory)
    for (const entry of await readdir(directory, { withFileTypes: true, encoding: 'buffer' })) {
      if (!entry.isDirectory()) continue
      const child = below(directory, entry.name)
      if (child.length <= maxPathBytes) directories.push(child)
      else directories.push(await moveUp(child, top))
    }
  }
}

async function moveUp(directory: Buffer, top: Buffer): Promise<Buffer> {
  // Moving a directory changes its parent entry, which needs write permission.
  await permit(directory)
  const moved = below(top, Buffer.from(randomUUID()))
  await rename(directory, moved)
  return moved
}

/** Root needs no permissions, and must not change those of a file that a link leads to. */
async function permit(directory: Buffer): Promise<void> {
  if (process.geteuid?.() !== 0) await chmod(directory, 0o700)
}

function below(directory: Buffer, name: Buffer): Buffer {
  return Buffer.concat([directory, Buffer.from('/'), name])
}
