/** A build's conditions in words, with what to do about each. */
import type { WireCondition } from '../../../rules/model/wire.js'
import { adviceFor } from '../data/words.js'
import { Ago } from './parts.js'

export function Conditions({ of }: { readonly of: readonly WireCondition[] }) {
  if (of.length === 0) return null
  return (
    <ul class="conditions">
      {of.map(({ type, message, lastTransitionTime }) => (
        <li key={type} class={type === 'Draining' ? 'info' : 'warn'}>
          <b>{type}</b> <Ago at={Date.parse(lastTransitionTime)} />
          <p>{message}</p>
          <p class="quiet">{adviceFor(type)}</p>
        </li>
      ))}
    </ul>
  )
}
