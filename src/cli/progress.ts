/** Progress of long work, such as the pull of an image or a drain, on stderr. */
import type { FleetClient, FleetEvent } from '../client/index.js'
import { FleetError } from '../contracts/errors.js'
import { oneLine } from '../server/log.js'
import type { Terminal } from './terminal.js'

/** Shows the messages of these events until the returned function is called. A token that may not read events shows none. */
export function showProgress(
  terminal: Terminal,
  client: FleetClient,
  types: readonly FleetEvent['type'][],
): () => void {
  const reading = new AbortController()
  const read = async () => {
    let last = ''
    for await (const event of client.events({ signal: reading.signal })) {
      if (event.type === 'EventsDropped' || !types.includes(event.type) || event.message === last) continue
      last = event.message
      terminal.note(terminal.paint('dim', oneLine(event.message)))
    }
  }
  read().catch((error: unknown) => {
    // The command itself reports what is wrong.
    if (!FleetError.is(error)) throw error
  })
  return () => reading.abort()
}

const meterIntervalMs = 2_000

/** Shows the last line that it is given, every 2 s. */
export function progressMeter(terminal: Terminal): (line: string) => void {
  let shownAt = performance.now()
  return (line) => {
    if (performance.now() - shownAt < meterIntervalMs) return
    shownAt = performance.now()
    terminal.note(terminal.paint('dim', line))
  }
}
