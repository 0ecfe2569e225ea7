/**
 * Reads the bodies of heartbeats, and limits what they can make the host hold in memory. Anyone who reaches the agent can send
 * them, so a caller whose id belongs to no server is given little: the start of the body is enough to find the game's state.
 */
import type { IncomingMessage } from 'node:http'
import { systemClock } from '../contracts/clock.js'

/** Maximum size of a heartbeat's body: enough for about 5,000 players with GUIDs as ids. */
export const maxHeartbeatBytes = 256 * 1024
/** How many bodies of one server may be incomplete at once. A game sends one heartbeat after the other. */
const maxIncompletePerServer = 4

/** Of a caller whose id belongs to no server: how much of a body is read, for how long, and of how many at once. */
export const maxStrangerBytes = 4 * 1024
const strangerMs = 5_000
export const maxStrangers = 256

export type Body =
  | { readonly text: string }
  /** The first `maxStrangerBytes` of a longer body. */
  | { readonly start: string }
  | 'too large'
  /** The caller has too many bodies in progress, or takes too long. */
  | 'refused'

export class HeartbeatBodies {
  /** The number of incomplete bodies by id. Most bodies arrive with their headers and are never in it. */
  readonly #incomplete = new Map<string, number>()
  #strangers = 0

  /** Reads the body of a server's heartbeat. Does not call `done` if the client disconnects early. */
  ofServer(id: string, request: IncomingMessage, done: (body: Body) => void): void {
    const chunks: Buffer[] = []
    let bytes = 0
    let isCounted = false
    const finish = (body?: Body) => {
      request.off('data', onData).off('end', onEnd).off('close', onClose)
      if (isCounted) this.#release(id)
      if (body !== undefined) done(body)
    }
    const onData = (chunk: Buffer) => {
      bytes += chunk.length
      if (bytes > maxHeartbeatBytes) return finish('too large')
      if (!isCounted && !request.complete) {
        if ((this.#incomplete.get(id) ?? 0) >= maxIncompletePerServer) return finish('refused')
        this.#incomplete.set(id, (this.#incomplete.get(id) ?? 0) + 1)
        isCounted = true
      }
      chunks.push(chunk)
    }
    const onEnd = () => finish({ text: textOf(chunks) })
    const onClose = () => finish()
    request.on('data', onData).on('end', onEnd).on('close', onClose)
  }

  /** Reads the body of a heartbeat whose id belongs to no server. Does not call `done` if the client disconnects early. */
  ofStranger(request: IncomingMessage, done: (body: Body) => void): void {
    if (this.#strangers >= maxStrangers) return done('refused')
    this.#strangers++
    const chunks: Buffer[] = []
    let bytes = 0
    const finish = (body?: Body) => {
      cancel()
      request.off('data', onData).off('end', onEnd).off('close', onClose)
      this.#strangers--
      if (body !== undefined) done(body)
    }
    const onData = (chunk: Buffer) => {
      // A copy, since a part of a chunk would keep the whole chunk in memory.
      chunks.push(Buffer.from(chunk.subarray(0, maxStrangerBytes - bytes)))
      bytes += chunk.length
      if (bytes > maxStrangerBytes) finish({ start: textOf(chunks) })
    }
    const onEnd = () => finish({ text: textOf(chunks) })
    const onClose = () => finish()
    const cancel = systemClock.after(strangerMs, () => finish('refused'))
    request.on('data', onData).on('end', onEnd).on('close', onClose)
  }

  #release(id: string): void {
    const left = (this.#incomplete.get(id) ?? 1) - 1
    if (left === 0) this.#incomplete.delete(id)
    else this.#incomplete.set(id, left)
  }
}

function textOf(chunks: readonly Buffer[]): string {
  const [first] = chunks
  return chunks.length > 1 ? Buffer.concat(chunks).toString() : (first?.toString() ?? '')
}
