/** A build's servers as one bar: its parts are the states, and what is left of `max`. */
import type { ServerState } from '../../../rules/model/resources.js'
import type { Counts } from '../data/model.js'
import { stateWords } from '../data/words.js'

const order: readonly ServerState[] = ['Active', 'StandingBy', 'Initializing', 'Pending', 'Terminating']

export function StateBar({ counts, max }: { readonly counts: Counts; readonly max: number }) {
  const live = order.reduce((sum, state) => sum + (state === 'Terminating' ? 0 : counts[state]), 0)
  const total = Math.max(max, live) + counts.Terminating
  const shown = order.filter((state) => counts[state] > 0)
  const text = shown.map((state) => `${counts[state]} ${stateWords[state]}`).join(', ') || 'no servers'
  return (
    <div class="state-bar">
      <div class="bar" role="img" aria-label={`${text}; at most ${max}`}>
        {shown.map((state) => (
          <span key={state} class={`fill state-${state}`} style={{ flexGrow: String(counts[state]) }} />
        ))}
        <span class="fill room" style={{ flexGrow: String(Math.max(0, total - live - counts.Terminating)) }} />
      </div>
      <ul class="legend" aria-hidden="true">
        {order.map((state) =>
          counts[state] > 0 || state === 'Active' || state === 'StandingBy' ? (
            <li key={state}>
              <span class={`dot state-${state}`} />
              <b>{counts[state].toLocaleString('en')}</b> {stateWords[state]}
            </li>
          ) : null,
        )}
        <li class="max">
          <span class="dot room" />
          max <b>{max.toLocaleString('en')}</b>
        </li>
      </ul>
    </div>
  )
}
