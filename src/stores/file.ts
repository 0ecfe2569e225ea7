/**
 * A store in a directory, for one process at a time. Acknowledged writes survive a crash of the process and a power loss.
 * Touches the directory through lmdb.
 */
import { resolve } from 'node:path'
import { FleetError } from '../contracts/errors.js'
import { silentLogger, type Logger } from '../contracts/logger.js'
import type { Collection, Store } from '../contracts/store.js'
import type { Build, Detail, Server } from '../rules/model/resources.js'
import { checkFiles, directoryUnusable, flushDirectories, createDirectory } from './directory.js'
import { DiskReserve } from './disk-reserve.js'
import {
  claim,
  loadLmdb,
  openCollections,
  openEnvironment,
  release,
  type Claim,
  type Environment,
} from './environment.js'
import { FileCollection } from './file-collection.js'
import { GroupWriter } from './group-writer.js'

export interface FileStoreOptions {
  /** Created, with its parents, if it does not exist. Must be on a local disk and must not be used for anything else. */
  readonly directory: string
  readonly logger?: Logger
}

/**
 * Opens the store. Throws `directory-in-use` if it is already open in a live process, including this one, and
 * `directory-unusable` with the system's reason if the directory cannot be created or opened.
 */
export async function fileStore(options: FileStoreOptions): Promise<Store> {
  const directory = resolve(options.directory)
  const logger = options.logger ?? silentLogger
  const changedDirectories = await createDirectory(directory)
  await checkFiles(directory)
  const lmdb = await loadLmdb()
  let environment: Environment | undefined
  let claimed: Claim | undefined
  try {
    environment = openEnvironment(lmdb, directory)
    await flushDirectories(changedDirectories)
    claimed = claim(environment, directory)
    const { deadHolder } = claimed
    if (deadHolder) logger.info({ directory, pid: deadHolder.pid }, 'took over the store of a process that has ended')
    const writer = new GroupWriter({
      environment: { ...environment, collections: openCollections(environment) },
      diskReserve: new DiskReserve(directory),
      lastVersion: claimed.lastVersion,
      async reopen() {
        logger.warn({ directory }, 'reopening the database after a failed write')
        await checkFiles(directory)
        const reopened = openEnvironment(lmdb, directory)
        return { ...reopened, collections: openCollections(reopened) }
      },
    })
    return new FileStore(writer)
  } catch (error) {
    if (environment) await abandon(environment, claimed)
    throw FleetError.is(error) ? error : directoryUnusable(directory, error)
  }
}

async function abandon(environment: Environment, claimed: Claim | undefined): Promise<void> {
  try {
    if (claimed) release(environment)
  } catch {
    // The caller gets the original error. The claim becomes invalid when this process ends.
  }
  await environment.root.close()
}

class FileStore implements Store {
  /** One writer per directory. */
  readonly shared = false
  readonly builds: Collection<Build>
  readonly servers: Collection<Server>
  readonly details: Collection<Detail>
  readonly #writer: GroupWriter
  readonly #life = { closed: false }
  #closing: Promise<void> | undefined

  constructor(writer: GroupWriter) {
    this.#writer = writer
    this.builds = new FileCollection<Build>('builds', writer, this.#life)
    this.servers = new FileCollection<Server>('servers', writer, this.#life)
    this.details = new FileCollection<Detail>('details', writer, this.#life)
  }

  close(): Promise<void> {
    this.#life.closed = true
    this.#closing ??= this.#writer.close()
    return this.#closing
  }
}
