/**
 * A store in a directory, for one process at a time. Acknowledged writes survive a crash of the process and a power loss.
 * Touches the directory through lmdb.
 */
import { chmod, mkdtemp, open as openFile, readdir, rename, rm } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import type { Database } from 'lmdb'
import type { CallOptions } from '../contracts/call-options.js'
import { systemClock } from '../contracts/clock.js'
import { FleetError, throwIfAborted } from '../contracts/errors.js'
import { type Logger, loggerOf } from '../contracts/logger.js'
import { aLogger, aNumber, aString, checkOptions, required } from '../contracts/option-checks.js'
import type { Collection, ReplaceLost, Store, StoreCheck, Versioned } from '../contracts/store.js'
import { codeOf, makeDirectories } from '../platform/files.js'
import type { DemandRecord } from '../rules/demand/demand-day.js'
import { type Build, type Detail, keyOf, type Ref, type Server } from '../rules/model/resources.js'
import { shown } from '../rules/validation/problem.js'
import { checkInChild } from './child-check.js'
import { claim, DirectoryLock, release, throwIfHeld } from './directory-lock.js'
import { checkFiles, createDirectory, directoryUnusable, flushDirectories, freeBytes } from './directory.js'
import { GroupWriter, type Write } from './group-writer.js'
import { check, countRecord, encode, jsonOf, NewestVersion, openContents, removeDamaged } from './integrity.js'
import {
  alreadyExists,
  type CollectionName,
  failureReason,
  type Lmdb,
  type LmdbEnvironment,
  loadLmdb,
  openEnvironment,
  type OpenEnvironment,
  openForWriting,
  recordNotFound,
  revisionConflict,
  storeClosed,
  storeDamaged,
} from './lmdb-environment.js'

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
  let environment: LmdbEnvironment | undefined
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
      contents: contents ?? countRecord(opened.collections, newestVersion.found),
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

async function abandon(environment: LmdbEnvironment, isClaimed: boolean): Promise<void> {
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
  readonly demand: Collection<DemandRecord>
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
    this.demand = new FileCollection<DemandRecord>('demand', writer, this.#life)
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

// One collection in a file store, with its records stored as JSON. Touches lmdb.

interface StoreLife {
  readonly directory: string
  readonly closed: boolean
  /** Damage that has not been accepted yet. */
  readonly damage: StoreCheck | undefined
}

class FileCollection<T extends Ref> implements Collection<T> {
  readonly #name: CollectionName
  readonly #writer: GroupWriter
  readonly #life: StoreLife

  constructor(name: CollectionName, writer: GroupWriter, life: StoreLife) {
    this.#name = name
    this.#writer = writer
    this.#life = life
  }

  async get(ref: Ref, options?: CallOptions): Promise<Versioned<T> | undefined> {
    this.#throwIfDone(options)
    const entry = this.#read((records) => records.getEntry(keyOf(ref)))
    return entry && this.#versioned(keyOf(ref), entry)
  }

  async list(options?: CallOptions): Promise<readonly Versioned<T>[]> {
    this.#throwIfDone(options)
    return this.#read((records) =>
      Array.from(records.getRange({ versions: true }), (entry) => this.#versioned(entry.key, entry)),
    )
  }

  async create(record: T, options?: CallOptions): Promise<string> {
    const version = await this.#write(record, { value: encode(JSON.stringify(record)) }, options)
    if (version === undefined) throw alreadyExists(this.#name, record)
    return String(version)
  }

  async update(record: T, revision: string, options?: CallOptions): Promise<string> {
    const change = { value: encode(JSON.stringify(record)), ifVersion: versionOf(revision) }
    const version = await this.#write(record, change, options)
    if (version === undefined)
      throw this.#has(record) ? revisionConflict(this.#name, record) : recordNotFound(this.#name, record)
    return String(version)
  }

  async delete(ref: Ref, revision: string, options?: CallOptions): Promise<void> {
    const version = await this.#write(ref, { ifVersion: versionOf(revision) }, options)
    if (version === undefined && this.#has(ref)) throw revisionConflict(this.#name, ref)
  }

  #write(ref: Ref, change: Change, options: CallOptions | undefined): Promise<number | undefined> {
    this.#throwIfDone(options)
    const key = keyOf(ref)
    if (Buffer.byteLength(key) > maxKeyBytes || key.includes('\0')) {
      throw new FleetError('invalid', `invalid record name ${shown(key)}: too long or with a NUL character`)
    }
    const signal = options?.signal
    return rejectOnAbort(this.#writer.write({ collection: this.#name, key, signal, ...change }), signal)
  }

  #has(ref: Ref): boolean {
    return this.#read((records) => records.doesExist(keyOf(ref)))
  }

  #read<R>(read: (records: Database<string, string>) => R): R {
    try {
      return read(this.#writer.environment.collections[this.#name])
    } catch (error) {
      if (FleetError.is(error)) throw error
      throw new FleetError('unavailable', `reading ${this.#name} failed: ${failureReason(error)}`, { cause: error })
    }
  }

  #versioned(key: string, { value, version }: { readonly value: string; readonly version?: number }): Versioned<T> {
    try {
      const record: T = JSON.parse(jsonOf(key, version ?? 0, value))
      return { record, revision: String(version) }
    } catch (error) {
      throw new FleetError('unavailable', `${this.#name}: record ${key} is damaged: ${failureReason(error)}`, {
        cause: error,
      })
    }
  }

  #throwIfDone(options: CallOptions | undefined): void {
    const { closed, damage, directory } = this.#life
    if (closed) throw storeClosed()
    if (damage) throw storeDamaged(directory, damage)
    throwIfAborted(options?.signal)
  }
}

type Change = Pick<Write, 'value' | 'ifVersion'>

/** lmdb allows 1978 bytes; valid names are much shorter. */
const maxKeyBytes = 1_024

/** Returns NaN, which matches no version, for a revision that this store did not issue. */
function versionOf(revision: string): number {
  return /^[1-9]\d{0,15}$/.test(revision) ? Number(revision) : Number.NaN
}

/** Rejects when the signal fires, even if the disk does not respond. */
function rejectOnAbort<R>(write: Promise<R>, signal: AbortSignal | undefined): Promise<R> {
  if (!signal) return write
  return new Promise((resolve, reject) => {
    const abort = () => {
      const message = 'the call was aborted by its signal; its write may still take effect'
      reject(new FleetError('aborted', message, { cause: signal.reason }))
    }
    signal.addEventListener('abort', abort, { once: true })
    const settled = () => signal.removeEventListener('abort', abort)
    write.then(resolve, reject).then(settled, settled)
  })
}

// Copies a file store to another directory while it is in use. Touches both directories, through lmdb and the file system.

/**
 * Copies the records, as they are at one moment, to `directory`, from which a store can be opened at once. The copy appears there
 * whole or not at all. Rejects with `invalid` if the directory is not empty, and with `directory-unusable` if it cannot be written.
 */
async function backUp(lmdb: Lmdb, { root }: LmdbEnvironment, directory: string): Promise<void> {
  const target = resolve(directory)
  await checkEmpty(target)
  let partial: string | undefined
  try {
    await makeDirectories(dirname(target), 0o700)
    partial = await mkdtemp(`${target}.partial-`)
    await root.backup(partial, true)
    await makeOwn(lmdb, partial)
    await rename(partial, target)
    await flushDirectories([dirname(target)])
  } catch (error) {
    if (partial !== undefined) await rm(partial, { recursive: true, force: true })
    if (FleetError.is(error)) throw error
    const message = `cannot write the backup ${target}: ${failureReason(error)}`
    throw new FleetError('directory-unusable', message, { cause: error })
  }
}

async function checkEmpty(directory: string): Promise<void> {
  const names = await readdir(directory).catch((error: unknown) => {
    if (codeOf(error) === 'ENOENT') return []
    throw new FleetError('directory-unusable', `cannot read ${directory}: ${failureReason(error)}`, { cause: error })
  })
  if (names.length === 0) return
  throw new FleetError('invalid', `the backup needs a directory of its own, but ${directory} is not empty`)
}

/** Removes the claim of this process, which holds the original and not the copy. Leaves only the data file, flushed. */
async function makeOwn(lmdb: Lmdb, directory: string): Promise<void> {
  const file = join(directory, 'data.mdb')
  await chmod(file, 0o600)
  const copy = openEnvironment(lmdb, directory)
  try {
    release(copy)
  } finally {
    await copy.root.close()
  }
  await rm(join(directory, 'lock.mdb'), { force: true })
  const handle = await openFile(file, 'r')
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
  await flushDirectories([directory])
}
