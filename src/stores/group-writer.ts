/**
 * Writes to lmdb in groups. Writes that arrive while a transaction is being flushed share the next transaction, so that a
 * thousand concurrent callers wait little longer than one. Touches the given environment, with one transaction at a time.
 *
 * A failed transaction may leave lmdb's environment unusable, and a write to it would then never return. So after a failure
 * the next transaction starts only once the environment has responded or has been reopened. On a file system that is full or has turned
 * read-only, a transaction can end the process. So none starts unless there is space, and a small write beside the data has succeeded.
 */
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Database } from 'lmdb'
import { FleetError } from '../contracts/errors.js'
import { release } from './directory-lock.js'
import {
  type CollectionName,
  type Collections,
  failureReason,
  type LmdbEnvironment,
  type OpenEnvironment,
} from './lmdb-environment.js'
import { type Contents, type NewestVersion, readContents, sealBytes, tallied, writeContents } from './integrity.js'
import { isError } from '../rules/model/values.js'

/**
 * With a value only, creates the record. With a value and `ifVersion`, replaces the record. With `ifVersion` only, removes
 * the record.
 */
export interface Write {
  readonly collection: CollectionName
  readonly key: string
  /** From `encode`. Sealed when it is written. */
  readonly value?: Uint8Array
  /** The write fails unless this is the record's version. */
  readonly ifVersion?: number
  /** If the signal fires before the write's transaction starts, the write is skipped. */
  readonly signal: AbortSignal | undefined
}

interface GroupWriterDependencies {
  readonly environment: OpenEnvironment
  /** Of the file system. */
  readonly freeBytes: () => number
  /** The writer closes it. */
  readonly newestVersion: Pick<NewestVersion, 'write' | 'throwIfUnwritable' | 'flush' | 'close'>
  /** What the store contains. */
  readonly contents: Contents
  /** Opens the environment again after an unusable one was closed. */
  readonly reopen: () => Promise<OpenEnvironment>
}

interface Pending {
  readonly write: Write
  readonly resolve: (version: number | undefined) => void
  readonly reject: (error: unknown) => void
}

/** A thousand callers are two groups, each of which prepares its next writes while the other one is being flushed. */
const maxGroupSize = 512
/** A smaller group is worth waiting for those that are answered now: one flush costs as much for a few writes as for many. */
const minGroupSize = maxGroupSize / 2

export class GroupWriter {
  readonly #reopen: GroupWriterDependencies['reopen']
  readonly #freeBytes: GroupWriterDependencies['freeBytes']
  readonly #newestVersion: GroupWriterDependencies['newestVersion']
  readonly #queue: Pending[] = []
  #environment: OpenEnvironment
  #state: 'open' | 'dead' | 'closed' = 'open'
  /** False after any failure, until a write beside the data has been flushed. */
  #isWritable = true
  #running: Promise<void> | undefined
  /** Undefined after a failed transaction, until it has been read again. */
  #contents: Contents | undefined
  /** Also counts the versions of failed transactions, so that none is ever used twice. */
  #lastVersion: number

  constructor(deps: GroupWriterDependencies) {
    this.#environment = deps.environment
    this.#reopen = deps.reopen
    this.#freeBytes = deps.freeBytes
    this.#newestVersion = deps.newestVersion
    this.#contents = deps.contents
    this.#lastVersion = deps.contents.lastVersion
  }

  /** The environment, for reads. While the database is unusable, throws `unavailable` and triggers reopening it. */
  get environment(): OpenEnvironment {
    if (this.#state === 'open') return this.#environment
    this.#running ??= this.#run()
    throw new FleetError('unavailable', 'the database is being reopened after a failed write; retry')
  }

  /**
   * Once the write is flushed, resolves with the record's new version, or with undefined if the write's condition failed.
   */
  write(write: Write): Promise<number | undefined> {
    return new Promise((resolve, reject) => {
      this.#queue.push({ write, resolve, reject })
      this.#running ??= this.#run()
    })
  }

  /** Resolves if the file system takes writes and flushes them. Rejects with `unavailable` if not. Does not touch lmdb. */
  async probe(): Promise<void> {
    try {
      await this.#newestVersion.flush()
      this.#isWritable = true
    } catch (error) {
      this.#isWritable = false
      throw unwritable(error)
    }
  }

  /** Runs `action`, which writes what the store then contains, while no transaction is in progress. */
  async replaceContents(action: (environment: OpenEnvironment) => Contents): Promise<void> {
    await this.probe()
    while (this.#running) await this.#running
    this.#contents = action(this.#environment)
    this.#lastVersion = Math.max(this.#lastVersion, this.#contents.lastVersion)
    this.#newestVersion.write(this.#contents.lastVersion)
  }

  /** Finishes queued writes, releases the directory and closes the environment. */
  async close(): Promise<void> {
    await this.#running
    try {
      await this.probe()
      await this.#revive()
      release(this.#environment)
    } catch (error) {
      const message = `the store is closed, but its directory stays in use until this process ends: ${failureReason(error)}`
      throw new FleetError('unavailable', message, { cause: error })
    } finally {
      this.#newestVersion.close()
      if (this.#state === 'open') await this.#environment.root.close()
    }
  }

  async #run(): Promise<void> {
    await this.#revive().catch(doNothing)
    let answerLast = doNothing
    for (;;) {
      if (this.#queue.length < minGroupSize) {
        answerLast()
        answerLast = doNothing
        // Writes from the same turn of the event loop share a transaction.
        await nextTurn()
      }
      if (this.#queue.length === 0) break
      let group: readonly Pending[] = this.#queue.splice(0, maxGroupSize).filter(({ write }) => !write.signal?.aborted)
      try {
        await this.#throwIfUnwritable()
        group = this.#fitting(group)
      } catch (error) {
        answerLast()
        answerLast = doNothing
        rejectAll(group, error)
        continue
      }
      try {
        await this.#revive()
        // lmdb starts the transaction in this turn and runs it while the previous group's callers are answered.
        const [answer] = await Promise.all([this.#commit(group), nextTurn().then(answerLast)])
        answerLast = answer
      } catch (error) {
        answerLast()
        answerLast = doNothing
        await this.#fail(group, error)
      }
    }
    this.#running = undefined
  }

  /** Resolves once the group is flushed, with a function that answers it. */
  async #commit(group: readonly Pending[]): Promise<() => void> {
    if (group.length === 0) return doNothing
    const { root, collections, bytes } = this.#environment
    const before = (this.#contents ??= readContents(root))
    if (!before) throw new Error('the list of what the store contains is missing')
    const firstVersion = this.#lastVersion + 1
    this.#lastVersion += group.length
    const writes = group.map(({ write }) => write)
    const contents = { ...after(before, collections, writes, firstVersion), lastVersion: this.#lastVersion }

    let outcomes: Promise<boolean>[] = []
    const committed = root.batch(() => {
      outcomes = writes.map((write, i) => put(bytes[write.collection], write, firstVersion + i))
      outcomes.push(writeContents(root, contents))
    })
    this.#contents = undefined
    const [, ...written] = await Promise.all([committed, ...outcomes])

    this.#contents = contents
    this.#newestVersion.write(contents.lastVersion)
    return () => {
      for (const [i, { resolve }] of group.entries()) resolve(written[i] ? firstVersion + i : undefined)
    }
  }

  /** Rejects the writes for which there is no space, and returns the others. */
  #fitting(group: readonly Pending[]): readonly Pending[] {
    const free = this.#freeBytes()
    if (free >= bytesFor(group)) return group
    const removals = group.filter(({ write }) => write.value === undefined)
    const fitting = free >= bytesFor(removals) ? removals : []
    rejectAll(
      group.filter((pending) => !fitting.includes(pending)),
      Object.assign(new Error(`ENOSPC: no space left on device, only ${free} bytes`), { code: 'ENOSPC' }),
    )
    return fitting
  }

  async #throwIfUnwritable(): Promise<void> {
    if (!this.#isWritable) return this.probe()
    try {
      this.#newestVersion.throwIfUnwritable()
    } catch (error) {
      this.#isWritable = false
      throw unwritable(error)
    }
  }

  async #revive(): Promise<void> {
    if (this.#state === 'dead') {
      await this.#environment.root.close()
      this.#state = 'closed'
    }
    if (this.#state === 'closed') {
      this.#environment = await this.#reopen()
      this.#state = 'open'
    }
  }

  /** Rejects the writes only after trying to reopen the environment, so that callers can read immediately afterwards. */
  async #fail(group: readonly Pending[], error: unknown): Promise<void> {
    const cause = await causeOf(error)
    this.#isWritable = false
    if (this.#state === 'open' && !responds(this.#environment)) this.#state = 'dead'
    await this.#revive().catch(doNothing)
    rejectAll(group, cause)
  }
}

/** For what lmdb writes besides records. Most of it stays free for removals, which must be possible when nothing else is. */
const headroomBytes = 16 * 2 ** 20
const removalHeadroomBytes = 2 ** 20
/** A leaf, its split, and a share of the pages above it. */
const pageBytesForWrite = 4 * 4_096

/** At least as much as a transaction with these writes lets the file grow. */
function bytesFor(group: readonly Pending[]): number {
  let bytes = 0
  for (const { write } of group) if (write.value) bytes += write.value.length + pageBytesForWrite
  return bytes === 0 ? removalHeadroomBytes : bytes + headroomBytes
}

function rejectAll(group: readonly Pending[], cause: unknown): void {
  for (const { write, reject } of group) {
    const message = `writing ${write.key} to ${write.collection} failed: ${failureReason(cause)}`
    reject(new FleetError('unavailable', message, { cause }))
  }
}

function unwritable(cause: unknown): FleetError {
  return new FleetError('unavailable', `the file system of the store takes no writes: ${failureReason(cause)}`, {
    cause,
  })
}

/** What the store contains after the writes. No other process writes, so it is known in advance which conditions hold. */
function after(before: Contents, collections: Collections, writes: readonly Write[], firstVersion: number): Contents {
  const contents = { ...before }
  /** The versions of the records that this transaction has changed. */
  const changed = new Map<string, number | undefined>()
  for (const [i, { collection, key, value, ifVersion }] of writes.entries()) {
    const id = `${collection} ${key}`
    const holds = changed.has(id) ? changed.get(id) === ifVersion : isAt(collections[collection], key, ifVersion)
    if (!holds) continue
    const next = value === undefined ? undefined : firstVersion + i
    changed.set(id, next)
    contents[collection] = tallied(contents[collection], key, ifVersion, next)
  }
  return contents
}

/** Undefined: there is no such record. */
function isAt(database: Database<string, string>, key: string, version: number | undefined): boolean {
  return version === undefined ? !database.doesExist(key) : database.doesExist(key, version)
}

function put(database: Database<Uint8Array, string>, write: Write, version: number): Promise<boolean> {
  const { key, value, ifVersion } = write
  if (value === undefined) return database.remove(key, ifVersion ?? Number.NaN)
  sealBytes(key, version, value)
  if (ifVersion !== undefined) return database.put(key, value, version, ifVersion)
  return database.ifNoExists(key, () => {
    // This promise settles together with that of `ifNoExists`.
    void database.put(key, value, version)
  })
}

/**
 * Returns the cause of an lmdb error. lmdb sets `commitError`, a promise that rejects in the same turn with the system's
 * error.
 */
async function causeOf(error: unknown): Promise<unknown> {
  if (!isError(error) || !('commitError' in error)) return error
  return Promise.race([Promise.resolve(error.commitError).catch((cause: unknown) => cause), nextTurn(error)])
}

/** In place of an error handler: the next read or write tries again and reports the failure. */
function doNothing(): void {}

/** Returns true if an empty transaction, which writes nothing, succeeds. */
function responds({ root }: LmdbEnvironment): boolean {
  try {
    root.transactionSync(() => undefined)
    return true
  } catch {
    // The reason does not matter: the environment is reopened in any case.
    return false
  }
}
