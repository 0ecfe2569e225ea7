/** Reads and follows a log file while the game may be writing it and the host may be truncating it. */
import { open, type FileHandle } from 'node:fs/promises'
import { StringDecoder } from 'node:string_decoder'
import type { LogsOptions } from '../../src/contracts/backend.js'
import type { Clock } from '../../src/contracts/clock.js'
import { FleetError } from '../../src/contracts/errors.js'
import { codeOf } from '../../src/platform/error-code.js'

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
    const present = await reader.next()
    yield* tail === undefined ? present : lastOf(present, tail)
    while (follow && !signal?.aborted) {
      // Checked before reading, so that lines written just before the exit are not missed.
      const isGrowing = source.isGrowing()
      const lines = await reader.next()
      yield* lines
      if (!isGrowing && lines.length === 0) break
      if (lines.length === 0) await sleep(source.clock, signal)
    }
    if (!signal?.aborted) yield* reader.rest()
  } finally {
    await file.close()
  }
}

function lastOf(lines: readonly string[], count: number): readonly string[] {
  return count <= 0 ? [] : lines.slice(-count)
}

async function openLog({ path, server }: LogSource): Promise<FileHandle> {
  try {
    return await open(path, 'r')
  } catch (error) {
    if (codeOf(error) === 'ENOENT') throw new FleetError('not-found', `server ${server} has no log`)
    throw new FleetError('unavailable', `reading the log of server ${server} failed`, { cause: error })
  }
}

class LineReader {
  readonly #file: FileHandle
  readonly #buffer = Buffer.alloc(chunkBytes)
  #decoder = new StringDecoder('utf8')
  #position = 0
  #rest = ''

  constructor(file: FileHandle) {
    this.#file = file
  }

  /** Returns the complete lines up to the file's current end. */
  async next(): Promise<readonly string[]> {
    const { size } = await this.#file.stat()
    // The file was truncated, so start again from the beginning.
    if (size < this.#position) {
      this.#position = 0
      this.#rest = ''
      this.#decoder = new StringDecoder('utf8')
    }
    let text = this.#rest
    while (this.#position < size) {
      const length = Math.min(chunkBytes, size - this.#position)
      const { bytesRead } = await this.#file.read(this.#buffer, 0, length, this.#position)
      if (bytesRead === 0) break
      this.#position += bytesRead
      text += this.#decoder.write(this.#buffer.subarray(0, bytesRead))
    }
    const lines = text.split('\n')
    this.#rest = lines.pop() ?? ''
    return lines
  }

  /** Returns the unterminated last line, if there is one. */
  rest(): readonly string[] {
    return this.#rest === '' ? [] : [this.#rest]
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
