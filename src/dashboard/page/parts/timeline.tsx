/** Events one below the other, the newest first, with the time that passed between them. */
import type { FleetEvent } from '../../../contracts/events.js'
import { happeningsIn } from '../data/life.js'
import { duration } from '../data/words.js'
import { Clock } from './parts.js'

export function Timeline({ events }: { readonly events: readonly FleetEvent[] }) {
  if (events.length === 0) return <p class="quiet">The host's log has no events about it.</p>
  const newestFirst = happeningsIn(events).toReversed()
  return (
    <ol class="timeline" tabIndex={0} aria-label="Events of the server">
      {newestFirst.map(({ event, by }, index) => {
        const before = newestFirst[index + 1]?.event
        return (
          <li key={event.seq} class={kindOf(event)}>
            <p>{event.message}</p>
            <p class="quiet">
              <Clock at={event.at} />
              {by === undefined ? '' : ` · by ${by}`}
              {before && event.at - before.at >= 1_000
                ? ` · ${duration(event.at - before.at)} after the one before`
                : ''}
            </p>
          </li>
        )
      })}
    </ol>
  )
}

function kindOf(event: FleetEvent): string {
  if (event.type === 'ServerEnding') return event.crash ? 'bad' : 'ending'
  if (event.type === 'ServerStateChanged') return `state-${event.to}`
  if (event.type === 'Allocated') return 'state-Active'
  return event.type === 'ServerStartFailed' || event.type === 'ServerLate' ? 'warn' : ''
}
