/** A server's life as a bar: how long it started, was ready, had its match, and with what it ended. */
import type { FleetEvent } from '../../../../contracts/events.js'
import { now } from '../../data/live.js'
import { lifeOf, type Phase } from '../../data/life.js'
import { duration } from '../../data/words.js'

export function LifeBar({ events }: { readonly events: readonly FleetEvent[] }) {
  const { phases, end, isCrash } = lifeOf(events, now.value)
  const total = phases.reduce((sum, phase) => sum + phase.to - phase.from, 0)
  if (phases.length === 0) return null
  const text = [...phases.map(textOf), ...(end === undefined ? [] : [end])].join(', ')
  return (
    <div class="life" role="img" aria-label={`Its life: ${text}`}>
      {phases.map((phase) => (
        <span
          key={phase.from}
          class={`phase state-${phase.state}`}
          title={textOf(phase)}
          // A phase of a second beside one of an hour can be seen, too.
          style={{ flexGrow: String(Math.max(phase.to - phase.from, total / 50)) }}
        >
          {textOf(phase)}
        </span>
      ))}
      {end === undefined ? null : <span class={`end ${isCrash ? 'bad' : ''}`}>{end}</span>}
    </div>
  )
}

function textOf({ name, from, to }: Phase): string {
  return `${name} ${duration(to - from)}`
}
