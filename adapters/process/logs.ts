/**
 * Keeps the games' logs within bounds: each file while it grows, and all of them after their servers have ended.
 *
 * A game writes to its file by itself, since it outlives the host. The file was opened for appending, so it can be cut
 * under the game's hands: what the game writes next lands at the new end.
 */
import { closeSync, constants, fstatSync, ftruncateSync, openSync, readSync, statSync, writeSync } from 'node:fs'
import { readdir, rm, stat, utimes } from 'node:fs/promises'
import { join } from 'node:path'
import type { Clock } from '../../src/contracts/clock.js'
import type { Logger } from '../../src/contracts/logger.js'
import { codeOf } from './files.js'

const checkEveryMs = 1_000
const sweepEveryMs = 60 * 60 * 1000
/** A sweep reads the directory, so it waits for some company. */
const sweepSoonMs = 1_000
/** The tail that is kept is copied in one go, so it must not be huge. */
const longestTailBytes = 4 * 1024 * 1024

export interface LogsInput {
  readonly directory: string
  readonly maxBytes: number
  readonly retentionMs: number
  readonly kept: number
  /** Logs of instances that exist: never swept. */
  readonly inUse: () => ReadonlySet<string>
  /** Those of them that may still grow. */
  readonly growing: () => Iterable<string>
  readonly clock: Clock
  readonly logger: Logger
}

export class Logs {
  readonly #input: LogsInput
  #cancelCheck: (() => void) | undefined
  #nextSweep: { readonly at: number; cancel(): void } | undefined
  #sweeping: Promise<void> = Promise.resolve()
  #closed = false

  constructor(input: LogsInput) {
    this.#input = input
  }

  /** To be called when a log begins to grow. */
  watch(): void {
    if (this.#closed || this.#cancelCheck) return
    this.#cancelCheck = this.#input.clock.after(checkEveryMs, () => {
      this.#cancelCheck = undefined
      const growing = [...this.#input.growing()]
      for (const path of growing) this.#trim(path)
      if (growing.length > 0) this.watch()
    })
  }

  /** To be called when the writer of this log has ended: its time of retention begins now. */
  async ended(path: string): Promise<void> {
    this.#trim(path)
    const now = new Date(this.#input.clock.now())
    try {
      await utimes(path, now, now)
    } catch (error) {
      // Without its mark the log merely goes by the time of its last line.
      if (codeOf(error) !== 'ENOENT')
        this.#input.logger.warn({ err: error, path }, 'a log could not be marked as ended')
    }
  }

  /** Removes logs that are too old or too many: soon, and then from time to time. */
  sweep(inMs = Math.min(sweepSoonMs, this.#input.retentionMs)): void {
    const { clock, logger, retentionMs } = this.#input
    const at = clock.elapsed() + inMs
    // One that is due earlier is left, or a steady coming and going of servers would put it off for ever.
    if (this.#closed || (this.#nextSweep && this.#nextSweep.at <= at)) return
    this.#nextSweep?.cancel()
    const cancel = clock.after(inMs, () => {
      this.#nextSweep = undefined
      this.#sweeping = this.#sweepNow()
        .catch((error: unknown) => logger.warn({ err: error }, 'old logs could not be removed'))
        .then(() => this.sweep(Math.max(sweepSoonMs, Math.min(retentionMs, sweepEveryMs))))
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
    const { directory, retentionMs, kept, inUse, clock } = this.#input
    const logs: { readonly path: string; readonly endedAt: number }[] = []
    for (const name of await readdir(directory)) {
      const path = join(directory, name)
      if (!name.endsWith('.log') || inUse().has(path)) continue
      const endedAt = await endOf(path)
      if (endedAt !== undefined) logs.push({ path, endedAt })
    }
    logs.sort((a, b) => b.endedAt - a.endedAt)
    for (const [i, log] of logs.entries()) {
      if (i < kept && clock.now() - log.endedAt < retentionMs) continue
      // The name may have come back to life while this went through the list.
      if (!inUse().has(log.path)) await rm(log.path, { force: true })
    }
  }

  #trim(path: string): void {
    try {
      trimToTail(path, this.#input.maxBytes)
    } catch (error) {
      if (codeOf(error) === 'ENOENT') return
      this.#input.logger.warn({ err: error, path }, 'a log could not be cut to its bound')
    }
  }
}

/** Undefined when somebody else has removed it. */
async function endOf(path: string): Promise<number | undefined> {
  try {
    return (await stat(path)).mtimeMs
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined
    throw error
  }
}

/**
 * Cuts a file that is over `maxBytes` to its last half, at most 4 MiB of it, beginning with a whole line. Synchronous:
 * what the game writes between the reading and the cutting is lost, so little may happen there.
 */
export function trimToTail(path: string, maxBytes: number): void {
  if (statSync(path).size <= maxBytes) return
  const file = openSync(path, constants.O_RDWR | constants.O_APPEND)
  try {
    const { size } = fstatSync(file)
    if (size <= maxBytes) return
    const tail = Buffer.alloc(Math.min(Math.floor(maxBytes / 2), longestTailBytes))
    const length = readSync(file, tail, 0, tail.length, size - tail.length)
    const firstLine = tail.indexOf('\n') + 1
    ftruncateSync(file, 0)
    writeSync(file, '[gamekeeper: the log was over its bound, its older part is gone]\n')
    writeSync(file, tail.subarray(firstLine, length))
  } finally {
    closeSync(file)
  }
}
