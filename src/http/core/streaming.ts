/** Sends streamed bodies at the reader's pace. A reader that accepts nothing for too long is disconnected. */
import type { ServerResponse } from 'node:http'
import { systemClock } from '../../contracts/clock.js'

export const defaultStallMs = 30_000

/** Resolves when the stream has ended or the reader is gone. Rejects with the stream's error. */
export async function sendStream(
  outgoing: ServerResponse,
  stream: AsyncIterable<string>,
  stallMs: number,
): Promise<void> {
  for await (const text of stream) {
    if (outgoing.destroyed) return
    if (!outgoing.write(text) && !(await isDrained(outgoing, stallMs))) {
      outgoing.destroy()
      return
    }
  }
  outgoing.end()
}

function isDrained(outgoing: ServerResponse, stallMs: number): Promise<boolean> {
  return new Promise((resolve) => {
    const done = (drained: boolean) => () => {
      cancel()
      outgoing.off('drain', onDrain).off('close', onClose)
      resolve(drained)
    }
    const onDrain = done(true)
    const onClose = done(false)
    const cancel = systemClock.after(stallMs, onClose)
    outgoing.on('drain', onDrain).on('close', onClose)
    if (outgoing.destroyed) onClose()
  })
}

/** The same as a web-standard body. `disconnect` ends the connection, where the runtime exposes it. */
export function streamedBody(
  stream: AsyncIterable<string>,
  stallMs: number,
  disconnect: (() => void) | undefined,
): ReadableStream<Uint8Array> {
  const source = stream[Symbol.asyncIterator]()
  const encoder = new TextEncoder()
  let cancelTimeout = () => {}
  const end = async () => {
    cancelTimeout()
    await source.return?.()
  }
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      cancelTimeout()
      const { done, value } = await source.next()
      if (done === true) return controller.close()
      controller.enqueue(encoder.encode(value))
      cancelTimeout = systemClock.after(stallMs, () => {
        if (disconnect) disconnect()
        else controller.error(new Error(`the reader accepted nothing for ${stallMs / 1000} s`))
        void end()
      })
    },
    cancel: end,
  })
}
