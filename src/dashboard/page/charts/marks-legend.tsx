/** Which sign in the charts means what, and what they mark, for readers who do not see them. */
import { Clock } from '../parts/parts.js'
import { type Mark, markKinds, markLooks } from './marks.js'

export function MarksLegend({ of }: { readonly of: readonly Mark[] }) {
  const kinds = markKinds.filter((kind) => of.some((mark) => mark.kind === kind))
  if (kinds.length === 0) return null
  return (
    <>
      <ul class="legend marks" aria-hidden="true">
        {kinds.map((kind) => (
          <li key={kind}>
            <span class={`sign ${kind}`}>{markLooks[kind].sign}</span> {kind}
          </li>
        ))}
      </ul>
      <ul class="hidden" aria-label="Marked in the charts">
        {of.map(({ kind, at, text }) => (
          <li key={`${kind} ${at} ${text}`}>
            <Clock at={at} /> {text}
          </li>
        ))}
      </ul>
    </>
  )
}
