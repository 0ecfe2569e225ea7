/** Reads the last hour of the fleet, or of a build, and goes on reading it while it is shown. */
import { type Signal, useSignal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import type { FleetActivity } from '../../../contracts/observer.js'
import { keyOf, type Ref } from '../../../rules/model/resources.js'
import { atMostEvery } from '../data/at-most-every.js'
import { connections, fleet } from '../data/live.js'

/** As often as the host counts. */
const readMs = 10_000
const soonMs = 2_000

/** `changed`: reads again, soon, when this changes. */
export function useActivity(changed: number, build?: Ref): Signal<FleetActivity | undefined> {
  const activity = useSignal<FleetActivity | undefined>(undefined)
  const readSoon = useRef(() => {})
  useEffect(() => {
    const stop = new AbortController()
    const { signal } = stop
    const read = async () => {
      if (signal.aborted || document.hidden) return
      try {
        activity.value = await fleet.activity(build === undefined ? { signal } : { build, signal })
      } catch {
        // The event stream says whether the host answers.
      }
    }
    readSoon.current = atMostEvery(soonMs, () => void read())
    readSoon.current()
    const timer = setInterval(() => void read(), readMs)
    const onShown = () => void read()
    document.addEventListener('visibilitychange', onShown)
    return () => {
      stop.abort()
      clearInterval(timer)
      document.removeEventListener('visibilitychange', onShown)
    }
  }, [build && keyOf(build), connections.value])
  useEffect(() => readSoon.current(), [changed])
  return activity
}
