/** Reads older events of the host's log than the page has: when the reader comes to the oldest one, or looks for some among all. */
import { signal } from '@preact/signals'
import { connections, fleet, model } from './live.js'
import type { StreamedEvent } from './model.js'
import { hasOlder, maxEvents, withOlder } from './reduce.js'

/** As many as when the page opens. */
const count = 500

export const isReadingOlder = signal(false)

/** `all`: as many as the page keeps. Does nothing while events are being read, and if there are no older ones. */
export async function readOlder(all = false): Promise<void> {
  const { events } = model.peek()
  const [first] = events
  if (isReadingOlder.peek() || first === undefined || !hasOlder(model.peek())) return
  isReadingOlder.value = true
  const to = first.seq - 1
  const room = maxEvents - events.length
  const from = Math.max(1, first.seq - Math.min(room, all ? maxEvents : count))
  const stop = new AbortController()
  const before = connections.peek()
  // The host may have restarted, and numbers its events anew.
  const unsubscribe = connections.subscribe((now) => {
    if (now !== before) stop.abort()
  })
  const read: StreamedEvent[] = []
  try {
    for await (const event of fleet.events({ from, to, signal: stop.signal })) read.push(event)
    if (!stop.signal.aborted) model.value = withOlder(model.peek(), read)
  } catch {
    // The connection's state says whether the host answers.
  } finally {
    unsubscribe()
    isReadingOlder.value = false
  }
}
