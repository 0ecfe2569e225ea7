/** What a command prints that is run for a game: its end is kept for messages, and it is bounded, because a game may have put any program there. */
import { FleetError } from '../../src/contracts/errors.js'

const keptBytes = 512
const maxBytes = 1_024 * 1_024

export class CommandOutput {
  #tail: Buffer = Buffer.alloc(0)
  #bytes = 0

  /** Returns an error if it is too much. */
  push(chunk: Uint8Array): FleetError | undefined {
    this.#bytes += chunk.byteLength
    // Copied, so that the rest of the chunk is not kept.
    this.#tail = Buffer.concat([this.#tail, chunk.subarray(-keptBytes)]).subarray(-keptBytes)
    return this.#bytes > maxBytes ? new FleetError('invalid', 'it has printed more than 1 MiB') : undefined
  }

  get text(): string {
    return this.#tail.toString()
  }
}
