/** A build's conditions in words, with what to do about each. */
import type { WireCondition } from '../../../rules/model/wire.js'
import { adviceFor } from '../data/words.js'
import { Ago } from './parts.js'

interface ConditionsProps {
  readonly of: readonly WireCondition[]
  /** The build is at its crash limit. */
  readonly isStopped: boolean
}

export function Conditions({ of, isStopped }: ConditionsProps) {
  if (of.length === 0) return null
  return (
    <ul class="conditions">
      {of.map(({ type, message, lastTransitionTime }) => (
        <li key={type} class={type === 'Draining' ? 'info' : 'warn'}>
          <b>{type}</b> <Ago at={Date.parse(lastTransitionTime)} />
          <p>{message}</p>
          <p class="quiet">{adviceFor(type, isStopped)}</p>
        </li>
      ))}
    </ul>
  )
}
