/** Whether this host leads, and whether its store and backend work: quiet while all is well. */
import { health, model, staleness } from '../../data/live.js'
import { hasOlder } from '../../data/reduce.js'
import { lastTrouble, recoveredAt } from '../../data/model.js'
import { Ago } from '../../parts/parts.js'

/** `since`: when this host began to lead, wall time in ms, if it is known. */
export function HostHealth({ since }: { readonly since: number | undefined }) {
  if (staleness.value) return <p class="health quiet">The health of this host is not known.</p>
  if (health.value === undefined) return <p class="health quiet">Asking the host how it is…</p>
  const { leads, store, backend } = health.value
  const { events } = model.value
  const trouble = lastTrouble(events)
  const recovered = recoveredAt(events)
  return (
    <ul class="health" aria-label="Health of this host">
      <State name="Leader" isGood={leads} good="this host" bad="another host, or none" began="elected" since={since} />
      <State name="Store" isGood={store} good="works" bad="does not work" />
      <State name="Backend" isGood={backend} good="works" bad="does not work" began="recovered" since={recovered} />
      <li class="quiet">
        {trouble === undefined ? (
          hasOlder(model.value) ? (
            `No error of the host itself among the newest ${events.length} events.`
          ) : (
            'No error of the host itself in its log.'
          )
        ) : (
          <>
            Last error <Ago at={trouble.at} />: {trouble.message}
          </>
        )}
      </li>
    </ul>
  )
}

interface StateProps {
  readonly name: string
  readonly isGood: boolean
  readonly good: string
  readonly bad: string
  /** Says with what it began. */
  readonly began?: string
  readonly since?: number | undefined
}

function State({ name, isGood, good, bad, began, since }: StateProps) {
  return (
    <li class={isGood ? 'good' : 'bad'}>
      <span class="dot" /> <b>{name}</b> {isGood ? good : bad}
      {isGood && since !== undefined ? (
        <>
          , {began} <Ago at={since} />
        </>
      ) : null}
    </li>
  )
}
