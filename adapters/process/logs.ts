/**
 * Limits the games' logs: the size of each file while it grows, and the number and age of those of terminated servers.
 *
 * A game writes to its file directly, since it outlives the host. The file is open for appending, so it can be truncated
 * at any time: the game's next write goes to the new end.
 */
import { closeSync, constants, fstatSync, ftruncateSync, openSync, readSync, statSync, writeSync } from 'node:fs'
import { readdir, rm, stat, utimes } from 'node:fs/promises'
import { join } from 'node:path'
import type { Clock } from '../../src/contracts/clock.js'
import type { Logger } from '../../src/contracts/logger.js'
import { codeOf } from '../../src/platform/error-code.js'

const checkIntervalMs = 1_000
const sweepIntervalMs = 60 * 60 * 1000
/** A sweep reads the whole directory: the delay lets servers that end together share one. */
const sweepDelayMs = 1_000
/** The tail is copied in one synchronous step. */
const maxTailBytes = 4 * 1024 * 1024

export interface LogsDependencies {
  readonly directory: string
  readonly maxBytes: number
  readonly retentionMs: number
  /** Of terminated servers. */
  readonly maxFiles: number
  /** Logs of existing instances, which are never removed. */
  readonly inUse: () => ReadonlySet<string>
  /** Logs that may still grow. */
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

  /** Call when a log begins to grow. */
  watch(): void {
    if (this.#closed || this.#cancelCheck) return
    this.#cancelCheck = this.#deps.clock.after(checkIntervalMs, () => {
      this.#cancelCheck = undefined
      const growing = [...this.#deps.growing()]
      for (const path of growing) this.#trim(path)
      if (growing.length > 0) this.watch()
    })
  }

  /** Call when the writer of this log has ended: its retention time starts now. */
  async ended(path: string): Promise<void> {
    this.#trim(path)
    const now = new Date(this.#deps.clock.now())
    try {
      await utimes(path, now, now)
    } catch (error) {
      // Retention then starts with the last line.
      if (codeOf(error) !== 'ENOENT')
        this.#deps.logger.warn({ err: error, path }, 'setting the end time of a log failed')
    }
  }

  /** Schedules the removal of logs that are too old or too many, and repeats it at intervals. */
  sweep(inMs = Math.min(sweepDelayMs, this.#deps.retentionMs)): void {
    const { clock, logger, retentionMs } = this.#deps
    const at = clock.elapsed() + inMs
    // Never postpones a sweep: with frequent calls it would never run.
    if (this.#closed || (this.#nextSweep && this.#nextSweep.at <= at)) return
    this.#nextSweep?.cancel()
    const cancel = clock.after(inMs, () => {
      this.#nextSweep = undefined
      this.#sweeping = this.#sweepNow()
        .catch((error: unknown) => logger.warn({ err: error }, 'removing old logs failed'))
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
      // A new instance may have got the name meanwhile.
      if (!inUse().has(log.path)) await rm(log.path, { force: true })
    }
  }

  #trim(path: string): void {
    try {
      trimToTail(path, this.#deps.maxBytes)
    } catch (error) {
      if (codeOf(error) === 'ENOENT') return
      this.#deps.logger.warn({ err: error, path }, 'truncating a log failed')
    }
  }
}

/** Undefined when the file is gone. */
async function endOf(path: string): Promise<number | undefined> {
  try {
    return (await stat(path)).mtimeMs
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined
    throw error
  }
}

/**
 * Truncates a file larger than `maxBytes` to its last `maxBytes / 2`, at most 4 MiB, starting with a whole line. Synchronous,
 * since lines that the game writes between reading and truncating are lost.
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
