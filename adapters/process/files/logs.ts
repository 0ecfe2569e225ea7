/**
 * Limits the size of each game's log while it grows, and the number and age of terminated servers' logs.
 *
 * A game writes directly to its log file, because it may outlive the host. The file is opened in append mode, so it can be
 * truncated at any time: the game's next write goes to the new end of the file.
 */
import { closeSync, constants, fstatSync, ftruncateSync, openSync, readSync, statSync, writeSync } from 'node:fs'
import { readdir, rm, stat, utimes } from 'node:fs/promises'
import { join } from 'node:path'
import type { Clock } from '../../../src/contracts/clock.js'
import type { Logger } from '../../../src/contracts/logger.js'
import { codeOf } from '../../../src/platform/error-code.js'

const checkIntervalMs = 1_000
const sweepIntervalMs = 60 * 60 * 1000
/** A sweep reads the whole directory. With this delay, servers that exit at about the same time share one sweep. */
const sweepDelayMs = 1_000
/** Limited because the tail is copied in a single synchronous step. */
const maxTailBytes = 4 * 1024 * 1024

export interface LogsDependencies {
  readonly directory: string
  readonly maxBytes: number
  readonly retentionMs: number
  /** Maximum number of logs of terminated servers. */
  readonly maxFiles: number
  /** Paths of the logs of existing instances, which are never removed. */
  readonly inUse: () => ReadonlySet<string>
  /** Paths of the logs that may still grow. */
  readonly growing: () => Iterable<string>
  readonly clock: Clock
  readonly logger: Logger
}

export class Logs {
  readonly #deps: LogsDependencies
  #cancelCheck: (() => void) | undefined
  #nextSweep: { readonly at: number; cancel(): void } | undefined
  #sweeping: Promise<void> = Promise.resolve()
  #closed = false

  constructor(deps: LogsDependencies) {
    this.#deps = deps
  }

  /** Call when a log starts to grow. */
  watch(): void {
    if (this.#closed || this.#cancelCheck) return
    this.#cancelCheck = this.#deps.clock.after(checkIntervalMs, () => {
      this.#cancelCheck = undefined
      const growing = [...this.#deps.growing()]
      for (const path of growing) this.#trim(path)
      if (growing.length > 0) this.watch()
    })
  }

  /** Call when nothing will write to this log any more: its retention time starts now. */
  async ended(path: string): Promise<void> {
    this.#trim(path)
    const now = new Date(this.#deps.clock.now())
    try {
      await utimes(path, now, now)
    } catch (error) {
      // Its retention time then starts at the last line written.
      if (codeOf(error) !== 'ENOENT') this.#deps.logger.warn({ err: error, path }, 'cannot set the end time of a log')
    }
  }

  /** Schedules the removal of logs that are too old or too many, then repeats it at intervals. */
  sweep(inMs = Math.min(sweepDelayMs, this.#deps.retentionMs)): void {
    const { clock, logger, retentionMs } = this.#deps
    const at = clock.elapsed() + inMs
    // An earlier sweep is never postponed; otherwise frequent calls would prevent it from ever running.
    if (this.#closed || (this.#nextSweep && this.#nextSweep.at <= at)) return
    this.#nextSweep?.cancel()
    const cancel = clock.after(inMs, () => {
      this.#nextSweep = undefined
      this.#sweeping = this.#sweepNow()
        .catch((error: unknown) => logger.warn({ err: error }, 'cannot remove old logs'))
        .then(() => this.sweep(Math.max(sweepDelayMs, Math.min(retentionMs, sweepIntervalMs))))
    })
    this.#nextSweep = { at, cancel }
  }

  async close(): Promise<void> {
    this.#closed = true
    this.#cancelCheck?.()
    this.#nextSweep?.cancel()
    await this.#sweeping
  }

  async #sweepNow(): Promise<void> {
    const { directory, retentionMs, maxFiles, inUse, clock } = this.#deps
    const logs: { readonly path: string; readonly endedAt: number }[] = []
    for (const name of await readdir(directory)) {
      const path = join(directory, name)
      if (!name.endsWith('.log') || inUse().has(path)) continue
      const endedAt = await endOf(path)
      if (endedAt !== undefined) logs.push({ path, endedAt })
    }
    logs.sort((a, b) => b.endedAt - a.endedAt)
    for (const [i, log] of logs.entries()) {
      if (i < maxFiles && clock.now() - log.endedAt < retentionMs) continue
      // A new instance with the same name may have been created in the meantime.
      if (!inUse().has(log.path)) await rm(log.path, { force: true })
    }
  }

  #trim(path: string): void {
    try {
      trimToTail(path, this.#deps.maxBytes)
    } catch (error) {
      if (codeOf(error) === 'ENOENT') return
      this.#deps.logger.warn({ err: error, path }, 'cannot truncate a log')
    }
  }
}

/** Returns undefined if the file does not exist. */
async function endOf(path: string): Promise<number | undefined> {
  try {
    return (await stat(path)).mtimeMs
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined
    throw error
  }
}

/**
 * Truncates a file larger than `maxBytes` to its last `maxBytes / 2` (at most 4 MiB), starting at the beginning of a line.
 * Synchronous to keep it short: lines that the game writes between the read and the truncation are lost.
 */
export function trimToTail(path: string, maxBytes: number): void {
  if (statSync(path).size <= maxBytes) return
  const file = openSync(path, constants.O_RDWR | constants.O_APPEND)
  try {
    const { size } = fstatSync(file)
    if (size <= maxBytes) return
    const tail = Buffer.alloc(Math.min(Math.floor(maxBytes / 2), maxTailBytes))
    const length = readSync(file, tail, 0, tail.length, size - tail.length)
    const firstLine = tail.indexOf('\n') + 1
    ftruncateSync(file, 0)
    writeSync(file, '[gamekeeper: log truncated; older lines were removed]\n')
    writeSync(file, tail.subarray(firstLine, length))
  } finally {
    closeSync(file)
  }
}
