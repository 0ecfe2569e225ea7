/**
 * A store in a directory, for one process at a time. Acknowledged writes survive a crash of the process and a power loss.
 * Touches the directory through lmdb.
 */
import { resolve } from 'node:path'
import { FleetError } from '../contracts/errors.js'
import type { Logger } from '../contracts/logger.js'
import { systemClock } from '../contracts/clock.js'
import { aLogger, aNumber, aString, checkOptions, required } from '../contracts/option-checks.js'
import { loggerOf } from '../contracts/stderr-logger.js'
import type { Collection, ReplaceLost, Store, StoreCheck } from '../contracts/store.js'
import type { Build, Detail, Server } from '../rules/model/resources.js'
import { backUp } from './backup.js'
import { claim, release } from './claim.js'
import { DirectoryLock, throwIfHeld } from './directory-lock.js'
import { checkFiles, createDirectory, directoryUnusable, flushDirectories, freeBytes } from './directory.js'
import {
  loadLmdb,
  openEnvironment,
  openForWriting,
  type Environment,
  type Lmdb,
  type OpenEnvironment,
} from './environment.js'
import { storeClosed, storeDamaged } from './failures.js'
import { FileCollection } from './file-collection.js'
import { GroupWriter } from './group-writer.js'
import { checkInChild } from './integrity/child-check.js'
import { check, count, openContents, removeDamaged } from './integrity/contents.js'
import { NewestVersion } from './integrity/newest-version.js'

export interface FileStoreOptions {
  /** Created, with its parents, if it does not exist. Must be on a local disk and must not be used for anything else. */
  readonly directory: string
  readonly logger?: Logger | false
  /**
   * How long to wait for another process that has the directory open, such as the one that a deployment replaces, before `directory-in-use`.
   * Default: 0.
   */
  readonly waitForDirectoryMs?: number
}

const pauseMs = 100

/**
 * Opens the store. Throws `directory-in-use` if it is already open in a live process, including this one, and
 * `directory-unusable` with the system's reason if the directory cannot be created or opened.
 */
export async function fileStore(options: FileStoreOptions): Promise<Store> {
  const types = { directory: required(aString), logger: aLogger, waitForDirectoryMs: aNumber }
  checkOptions<FileStoreOptions>('fileStore', options, types)
  const { waitForDirectoryMs = 0 } = options
  const until = systemClock.elapsed() + waitForDirectoryMs
  for (let isFirst = true; ; isFirst = false) {
    try {
      // Costs less than opening it.
      if (!isFirst) await throwIfHeld(resolve(options.directory))
      return await open(options)
    } catch (error) {
      if (!FleetError.is(error, 'directory-in-use') || systemClock.elapsed() >= until) throw error
      const { directory, logger } = options
      if (isFirst)
        loggerOf(logger).warn(
          { directory, waitForDirectoryMs },
          `${error.message}; waiting up to ${waitForDirectoryMs} ms until it is free`,
        )
      await new Promise<void>((resolve) => void systemClock.after(pauseMs, resolve))
    }
  }
}

async function open(options: FileStoreOptions): Promise<Store> {
  const directory = resolve(options.directory)
  const logger = loggerOf(options.logger)
  const changedDirectories = await createDirectory(directory)
  await checkFiles(directory)
  const lmdb = loadLmdb()
  const lock = await openLock(directory, logger)
  let environment: Environment | undefined
  let isClaimed = false
  let newestVersion: NewestVersion | undefined
  try {
    await checkInChild(directory, logger).catch(async (error: unknown) => {
      // A process that has it open matters more than what is wrong with it.
      await throwIfHeld(directory, lock?.socket)
      throw error
    })
    environment = openEnvironment(lmdb, directory)
    await flushDirectories(changedDirectories)
    const deadHolder = await claim(environment, directory, lock?.socket)
    isClaimed = true
    if (deadHolder) logger.info({ directory, pid: deadHolder.pid }, 'took over the store of a process that has ended')
    newestVersion = new NewestVersion(directory)
    const opened = openForWriting(environment)
    const contents = openContents(opened, opened.collections)
    const damage = await check(opened, newestVersion.found)
    for (const problem of damage.problems) logger.error({ directory, problem }, 'the store is damaged')
    const writer = new GroupWriter({
      environment: opened,
      freeBytes: () => freeBytes(directory),
      newestVersion,
      contents: contents ?? count(opened.collections, newestVersion.found),
      async reopen() {
        logger.warn({ directory }, 'reopening the database after a failed write')
        await checkFiles(directory)
        return openForWriting(openEnvironment(lmdb, directory))
      },
    })
    const isNew = contents?.lastVersion === 0
    return new FileStore({ directory, lmdb, writer, lock, isNew, damage, newestVersion })
  } catch (error) {
    newestVersion?.close()
    if (environment) await abandon(environment, isClaimed)
    await lock?.close()
    throw FleetError.is(error) ? error : directoryUnusable(directory, error)
  }
}

/** Without a lock, the store still detects a holder that runs in the same PID namespace. */
async function openLock(directory: string, logger: Logger): Promise<DirectoryLock | undefined> {
  try {
    return await DirectoryLock.open(directory)
  } catch (err) {
    logger.warn({ directory, err }, 'store not locked: a process in another container could open it too')
    return undefined
  }
}

async function abandon(environment: Environment, isClaimed: boolean): Promise<void> {
  try {
    if (isClaimed) release(environment)
  } catch {
    // The caller gets the original error. The claim becomes invalid when this process ends.
  }
  await environment.root.close()
}

interface FileStoreParts {
  readonly directory: string
  readonly lmdb: Lmdb
  readonly writer: GroupWriter
  readonly lock: DirectoryLock | undefined
  readonly isNew: boolean
  readonly damage: StoreCheck
  readonly newestVersion: NewestVersion
}

class FileStore implements Store {
  /** One writer per directory. */
  readonly shared = false
  readonly isNew: boolean
  readonly builds: Collection<Build>
  readonly servers: Collection<Server>
  readonly details: Collection<Detail>
  readonly #parts: FileStoreParts
  readonly #life: { closed: boolean; damage: StoreCheck | undefined; readonly directory: string }
  readonly #readers = new Set<Promise<unknown>>()
  #closing: Promise<void> | undefined

  constructor(parts: FileStoreParts) {
    const { damage, directory, isNew, writer } = parts
    this.#parts = parts
    this.#life = { closed: false, damage: damage.isWhole ? undefined : damage, directory }
    this.isNew = isNew
    this.builds = new FileCollection<Build>('builds', writer, this.#life)
    this.servers = new FileCollection<Server>('servers', writer, this.#life)
    this.details = new FileCollection<Detail>('details', writer, this.#life)
  }

  get damage(): StoreCheck | undefined {
    return this.#life.damage
  }

  async acceptDamage(replace: ReplaceLost = () => []): Promise<void> {
    const { directory, newestVersion, writer } = this.#parts
    const { damage } = this.#life
    if (!damage) return
    try {
      await writer.replaceContents((environment) =>
        removeDamaged(environment, { damage, newestVersion: newestVersion.found, replace }),
      )
    } catch (error) {
      throw directoryUnusable(directory, error)
    }
    const left = await this.check()
    this.#life.damage = left.isWhole ? undefined : left
    if (!left.isWhole) throw storeDamaged(directory, left)
  }

  async probe(): Promise<void> {
    if (this.#life.closed) throw storeClosed()
    await this.#parts.writer.probe()
  }

  check(): Promise<StoreCheck> {
    const { newestVersion } = this.#parts
    // Once the damage has been accepted, the store is older than that version no more.
    return this.#read((environment) => check(environment, newestVersion.found))
  }

  backup(directory: string): Promise<void> {
    return this.#read((environment) => backUp(this.#parts.lmdb, environment, directory))
  }

  close(): Promise<void> {
    this.#life.closed = true
    return (this.#closing ??= this.#close())
  }

  async #read<R>(read: (environment: OpenEnvironment) => Promise<R>): Promise<R> {
    if (this.#life.closed) throw storeClosed()
    const done = read(this.#parts.writer.environment)
    this.#readers.add(done)
    try {
      return await done
    } finally {
      this.#readers.delete(done)
    }
  }

  async #close(): Promise<void> {
    // Closing the environment makes a copy or a check in progress fail.
    await Promise.allSettled(this.#readers)
    try {
      await this.#parts.writer.close()
    } finally {
      await this.#parts.lock?.close()
    }
  }
}
