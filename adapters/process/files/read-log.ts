/** Reads and follows a log file while the game may be writing it and the host may be truncating it. */
import type { FileHandle } from 'node:fs/promises'
import type { LogsOptions } from '../../../src/contracts/backend.js'
import type { Clock } from '../../../src/contracts/clock.js'
import { FleetError } from '../../../src/contracts/errors.js'
import { codeOf } from '../../../src/platform/error-code.js'
import { NotAFile, openForReading } from '../../../src/platform/regular-file.js'
import { LineSplitter } from '../../shared/line-splitter.js'

export interface LogSource {
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
