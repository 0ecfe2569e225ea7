/** `3 of 6 ready`: amber when short, red at none. */
import type { ReadyOfWanted } from '../data/readiness.js'

export function Readiness({ of: { text, colour, isMaxReached } }: { readonly of: ReadyOfWanted }) {
  return (
    <span class="readiness">
      {isMaxReached ? <span class="max-reached">max reached</span> : null}
      <b class={colour}>{text}</b>
    </span>
  )
}
