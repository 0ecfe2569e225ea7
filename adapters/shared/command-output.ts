/**
 * The output of commands that run beside games, as all backends treat it. A game may have put any program there, so the output is bounded; its end is
 * kept for messages.
 */
import { FleetError } from '../../src/contracts/errors.js'

/** For the connection of a command, which may take long and print nothing. */
export const commandKeepAliveMs = 30_000

/** True for what container runtimes say of a program that is not there or may not be run. */
export function saysUnrunnable(message: string): boolean {
  return /executable file not found|exec: "/i.test(message)
}

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
