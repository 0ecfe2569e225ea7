/**
 * A store in a directory: what was answered survives the process and a loss of power. One process at a time.
 * Touches that directory, through lmdb.
 */
import { resolve } from 'node:path'
import { FleetError } from '../contracts/errors.js'
import { silentLogger, type Logger } from '../contracts/logger.js'
import type { Build, Detail, Server } from '../rules/model/resources.js'
import type { Collection, Store } from '../contracts/store.js'
import { checkFiles, directoryUnusable, flushDirectories, makeDirectory } from './directory.js'
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
import { DiskReserve } from './disk-reserve.js'

export interface FileStoreOptions {
  /** Made when it is not there, parents included. It must be on a local disk, and be nobody else's. */
  readonly directory: string
  readonly logger?: Logger
}

/**
 * Opens the store. Throws `directory-in-use` when a live process has it open, this one included, and
 * `directory-unusable` with the system's reason when it cannot be made or opened.
 */
export async function fileStore(options: FileStoreOptions): Promise<Store> {
  const directory = resolve(options.directory)
  const logger = options.logger ?? silentLogger
  const newNames = await makeDirectory(directory)
  await checkFiles(directory)
  const lmdb = await loadLmdb()
  let environment: Environment | undefined
  let claimed: Claim | undefined
  try {
    environment = openEnvironment(lmdb, directory)
    await flushDirectories(newNames)
    claimed = claim(environment, directory)
    if (claimed.gone) logger.info({ directory, pid: claimed.gone.pid }, 'took over a directory whose holder is gone')
    const writer = new GroupWriter({
      environment: { ...environment, collections: openCollections(environment) },
      room: new DiskReserve(directory),
      lastVersion: claimed.lastVersion,
      async reopen() {
        logger.warn({ directory }, 'opening the database again after a write that failed')
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
    // Why it could not be opened is what the caller must know. The claim ends with this process.
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
