/** Reads a log while its game may still be writing it, and while the host may be cutting it to its bound. */
import { open, type FileHandle } from 'node:fs/promises'
import { StringDecoder } from 'node:string_decoder'
import type { LogsOptions } from '../../src/contracts/backend.js'
import type { Clock } from '../../src/contracts/clock.js'
import { FleetError } from '../../src/contracts/errors.js'
import { codeOf } from './files.js'

export interface LogInput {
  readonly path: string
  /** Whose log it is, for messages. */
  readonly server: string
  /** Whether its game may write more. */
  readonly isGrowing: () => boolean
  readonly clock: Clock
}

const lookAgainMs = 200
const chunkBytes = 64 * 1024

/** Ends quietly when the signal fires. Throws `not-found` when there is no such log. */
export async function* readLog(input: LogInput, options: LogsOptions): AsyncGenerator<string> {
  const { follow = false, tail, signal } = options
  const file = await openLog(input)
  try {
    const reader = new LineReader(file)
    if (signal?.aborted) return
    const present = await reader.next()
    yield* tail === undefined ? present : lastOf(present, tail)
    while (follow && !signal?.aborted) {
      // Asked first: what it wrote before its end is there when it has ended.
      const isGrowing = input.isGrowing()
      const lines = await reader.next()
      yield* lines
      if (!isGrowing && lines.length === 0) break
      if (lines.length === 0) await pause(input.clock, signal)
    }
    if (!signal?.aborted) yield* reader.rest()
  } finally {
    await file.close()
  }
}

function lastOf(lines: readonly string[], count: number): readonly string[] {
  return count <= 0 ? [] : lines.slice(-count)
}

async function openLog({ path, server }: LogInput): Promise<FileHandle> {
  try {
    return await open(path, 'r')
  } catch (error) {
    if (codeOf(error) === 'ENOENT') throw new FleetError('not-found', `there is no log of server ${server}`)
    throw new FleetError('unavailable', `the log of server ${server} cannot be read`, { cause: error })
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

  /** The whole lines up to the present end. */
  async next(): Promise<readonly string[]> {
    const { size } = await this.#file.stat()
    // It was cut under our hands: what is left of it begins anew.
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

  /** What stands behind the last newline. */
  rest(): readonly string[] {
    return this.#rest === '' ? [] : [this.#rest]
  }
}

async function pause(clock: Clock, signal: AbortSignal | undefined): Promise<void> {
  let wake = () => {}
  let cancel = () => {}
  await new Promise<void>((resolve) => {
    wake = resolve
    signal?.addEventListener('abort', wake, { once: true })
    cancel = clock.after(lookAgainMs, resolve)
  })
  cancel()
  signal?.removeEventListener('abort', wake)
}
