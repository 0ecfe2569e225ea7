/**
 * Limits the size of each game's log while it grows, and the number and age of terminated servers' logs.
 *
 * A game writes directly to its log file, because it may outlive the host. The file is opened in append mode, so it can be
 * truncated at any time: the game's next write goes to the new end of the file.
 */
import { closeSync, constants, fstatSync, ftruncateSync, openSync, readSync, statSync, writeSync } from 'node:fs'
import { type FileHandle, readdir, rm, stat, utimes } from 'node:fs/promises'
import { join } from 'node:path'
import type { LogsOptions } from '../../../src/contracts/backend.js'
import type { Clock } from '../../../src/contracts/clock.js'
import { FleetError } from '../../../src/contracts/errors.js'
import type { Logger } from '../../../src/contracts/logger.js'
import { codeOf, NotAFile, openForReading } from '../../../src/platform/files.js'
import { LineSplitter } from '../../shared/line-splitter.js'

const checkIntervalMs = 1_000
const sweepIntervalMs = 60 * 60 * 1000
/** A sweep reads the whole directory. With this delay, servers that exit at about the same time share one sweep. */
const sweepDelayMs = 1_000
/** Limited because the tail is copied in a single synchronous step. */
const maxTailBytes = 4 * 1024 * 1024

interface LogsDependencies {
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

export class LogFiles {
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

// Reads and follows a log file while the game may be writing it and the host may be truncating it.

interface LogSource {
  readonly path: string
  /** Name of the server, used in messages. */
  readonly server: string
  /** Whether the game may still write to the log. */
  readonly isGrowing: () => boolean
  readonly clock: Clock
}

const pollIntervalMs = 200
const chunkBytes = 64 * 1024

/** Ends without an error when the signal fires. Throws `not-found` if the log does not exist. */
export async function* readLog(source: LogSource, options: LogsOptions): AsyncGenerator<string> {
  // Both streams of a game go to one file as they are, so that they outlive the host: nothing is known of a line but its text.
  for await (const line of linesIn(source, options)) yield options.origin ? `- - ${line}` : line
}

async function* linesIn(source: LogSource, options: LogsOptions): AsyncGenerator<string> {
  const { follow = false, tail, signal } = options
  const file = await openLog(source)
  try {
    const reader = new LineReader(file)
    if (signal?.aborted) return
    if (tail === undefined) yield* reader.next(signal)
    else {
      const complete = await lastOf(reader.next(signal), tail)
      // An unterminated last line is one of them, and follows once it is complete.
      yield* reader.hasRest && complete.length === tail ? complete.slice(1) : complete
    }
    const bytesAtStart = reader.bytes
    while (follow && !signal?.aborted) {
      // Checked before reading, so that lines written just before the exit are not missed.
      const isGrowing = source.isGrowing()
      const before = reader.bytes
      yield* reader.next(signal)
      if (reader.bytes > before) continue
      if (!isGrowing) break
      await sleep(source.clock, signal)
    }
    const isSkipped = tail === 0 && reader.bytes === bytesAtStart
    if (!signal?.aborted && !isSkipped) yield* reader.rest()
  } finally {
    await file.close()
  }
}

async function lastOf(lines: AsyncIterable<string>, count: number): Promise<readonly string[]> {
  let last: string[] = []
  for await (const line of lines) {
    last.push(line)
    if (last.length >= 2 * count) last = last.slice(last.length - count)
  }
  return last.slice(Math.max(0, last.length - count))
}

async function openLog({ path, server }: LogSource): Promise<FileHandle> {
  try {
    return await openForReading(path)
  } catch (error) {
    if (codeOf(error) === 'ENOENT') throw new FleetError('not-found', `server ${server} has no log`)
    if (error instanceof NotAFile) throw new FleetError('directory-unusable', error.message, { cause: error })
    throw new FleetError('unavailable', `reading the log of server ${server} failed`, { cause: error })
  }
}

class LineReader {
  readonly #file: FileHandle
  readonly #buffer = Buffer.alloc(chunkBytes)
  #splitter = new LineSplitter()
  #position = 0
  /** Number of bytes read so far. */
  bytes = 0

  constructor(file: FileHandle) {
    this.#file = file
  }

  /** Yields the complete lines up to the file's current end, or until the signal fires. */
  async *next(signal: AbortSignal | undefined): AsyncGenerator<string> {
    const { size } = await this.#file.stat()
    // The file was truncated, so start again from the beginning.
    if (size < this.#position) {
      this.#position = 0
      this.#splitter = new LineSplitter()
    }
    while (this.#position < size && !signal?.aborted) {
      const length = Math.min(chunkBytes, size - this.#position)
      const { bytesRead } = await this.#file.read(this.#buffer, 0, length, this.#position)
      if (bytesRead === 0) break
      this.#position += bytesRead
      this.bytes += bytesRead
      for (const { text } of this.#splitter.push(this.#buffer.subarray(0, bytesRead))) yield text
    }
  }

  get hasRest(): boolean {
    return this.#splitter.hasRest
  }

  /** Returns the unterminated last line, if there is one. */
  rest(): readonly string[] {
    return this.#splitter.rest().map(({ text }) => text)
  }
}

async function sleep(clock: Clock, signal: AbortSignal | undefined): Promise<void> {
  let wake = () => {}
  let cancel = () => {}
  await new Promise<void>((resolve) => {
    wake = resolve
    signal?.addEventListener('abort', wake, { once: true })
    cancel = clock.after(pollIntervalMs, resolve)
  })
  cancel()
  signal?.removeEventListener('abort', wake)
}
