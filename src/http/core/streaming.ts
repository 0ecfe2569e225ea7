/** Sends streamed bodies at the reader's pace. Disconnects a reader that accepts no data for too long. */
import type { ServerResponse } from 'node:http'
import { systemClock } from '../../contracts/clock.js'

export const defaultStallMs = 30_000

/** Resolves when the stream ends or the reader disconnects. Rejects if the stream throws. */
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

/** Returns the stream as a web-standard body. `disconnect` closes the connection, if the runtime allows it. */
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
