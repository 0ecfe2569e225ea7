/** Reads what the charts mark: once from the host's log, and then from the events that arrive. */
import { useSignal } from '@preact/signals'
import { useEffect, useMemo } from 'preact/hooks'
import type { FleetEvent } from '../../../contracts/events.js'
import type { FleetActivity } from '../../../contracts/observer.js'
import { keyOf, type Ref } from '../../../rules/model/resources.js'
import { connections, fleet, model } from '../data/live.js'
import type { StreamedEvent } from '../data/model.js'
import { type Mark, markedTypes, marksOf } from './marks.js'

export function useMarks(activity: FleetActivity | undefined, build?: Ref): readonly Mark[] {
  /** Those of the log, up to `to`. */
  const past = useSignal<{ readonly to: number; readonly events: readonly FleetEvent[] }>({ to: 0, events: [] })
  const { events } = model.value
  const hasEvents = events.length > 0
  useEffect(() => {
    const to = model.peek().events.at(-1)?.seq
    if (to === undefined) return undefined
    const stop = new AbortController()
    void readMarked(to, stop.signal).then((read) => {
      if (!stop.signal.aborted) past.value = { to, events: read }
    })
    return () => stop.abort()
  }, [connections.value, hasEvents])
  const { to } = past.value
  const recent = events.filter((event): event is FleetEvent => event.seq > to && isMarked(event))
  const last = recent.at(-1)?.seq ?? 0
  return useMemo(
    () => marksOf([...past.value.events, ...recent], activity, build && keyOf(build)),
    [past.value, last, activity, build && keyOf(build)],
  )
}

const marked: ReadonlySet<string> = new Set(markedTypes)

function isMarked({ type }: StreamedEvent): boolean {
  return marked.has(type)
}

async function readMarked(to: number, signal: AbortSignal): Promise<readonly FleetEvent[]> {
  const read: FleetEvent[] = []
  try {
    for await (const event of fleet.events({ from: 1, to, types: markedTypes, signal })) {
      if (event.type !== 'EventsDropped') read.push(event)
    }
  } catch {
    // The connection's state says whether the host answers.
  }
  return read
}
