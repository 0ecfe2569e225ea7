/**
 * Sends an answer that goes on and on, at the pace of whoever reads it: what is not read is not made. A reader that takes
 * nothing for too long is cut off.
 */
import type { ServerResponse } from 'node:http'
import { systemClock } from '../../contracts/clock.js'

export const defaultStallMs = 30_000

/** Resolves when the stream has ended, or its reader has gone or was cut off. Rejects with what the stream fails with. */
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

/**
 * The same as a body of the web standard, whose `pull` is called when there is room for more. `cut` ends the connection,
 * where that can be had.
 */
export function streamedBody(
  stream: AsyncIterable<string>,
  stallMs: number,
  cut: (() => void) | undefined,
): ReadableStream<Uint8Array> {
  const source = stream[Symbol.asyncIterator]()
  const encoder = new TextEncoder()
  let cancelCut = () => {}
  const end = async () => {
    cancelCut()
    await source.return?.()
  }
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      cancelCut()
      const { done, value } = await source.next()
      if (done === true) return controller.close()
      controller.enqueue(encoder.encode(value))
      cancelCut = systemClock.after(stallMs, () => {
        if (cut) cut()
        else controller.error(new Error('the reader has taken nothing for too long'))
        void end()
      })
    },
    cancel: end,
  })
}
