/**
 * Writes what `kubectl get` and `kubectl describe` show beside the records: the figures of builds, and Events. The fleet never
 * reads any of it, and never waits for it; figures that the API server does not take now are written later.
 */
import type { Clock } from '../../../src/contracts/clock.js'
import { FleetError, messageOf } from '../../../src/contracts/errors.js'
import type { FleetEvent } from '../../../src/contracts/events.js'
import type { Logger } from '../../../src/contracts/logger.js'
import { keyOf, type Ref } from '../../../src/rules/model/resources.js'
import type { GameServerBuild } from '../../../src/rules/model/wire.js'
import type { StoreDisplay } from '../../../src/contracts/store.js'
import type { KubernetesApi } from '../client/api.js'
import type { BuildCollection } from './build-collection.js'
import { type FleetResources, headOf, rfc3339 } from './custom-resources.js'
import { kubeEvents, type OwnerReference, pathOf } from '../client/kube-objects.js'

export interface DisplayDependencies {
  readonly api: KubernetesApi
  readonly clock: Clock
  readonly logger: Logger
  readonly builds: BuildCollection
  readonly resources: FleetResources
  readonly ownerOfServer: (ref: Ref) => OwnerReference | undefined
}

/** Figures of one build are written at most this often. */
const betweenMs = 1_000
/** After failures the pauses grow to this. */
const longestPauseMs = 30_000
/** More Events than these are of use to nobody. */
const eventsAtOnce = 50
const eventsPerSecond = 5
/** In which a build tells of one failure of each kind. */
const repetitionMs = 60_000

/** A build that nobody has heard of after so many is gone. */
const mostPausesUnknown = 5

interface Wanted {
  readonly ref: Ref
  readonly status: GameServerBuild['status']
}

interface Told {
  readonly type: 'Normal' | 'Warning'
  readonly reason: string
  readonly message: string
  readonly at: number
  readonly about: { readonly kind: string; readonly apiVersion: string; readonly uid?: string } & Ref
}

export function storeDisplay(parts: DisplayDependencies): StoreDisplay & { close(): Promise<void> } {
  const { api, clock, logger, builds, resources } = parts
  const wanted = new Map<string, Wanted>()
  /** Builds that are being written, or were just now. */
  const busy = new Set<string>()
  /** Failures in a row, and the revision upon which somebody else has written. */
  const troubles = new Map<string, { readonly failures: number; readonly refusedUpon?: string | undefined }>()
  const timers = new Set<() => void>()
  const underway = new Set<Promise<void>>()
  let isClosed = false
  /** Elapsed ms of the last failure of each kind that a build told of. */
  const saidAt = new Map<string, number>()
  let eventsLeft = eventsAtOnce
  let countedAt = clock.elapsed()
  let drawn = 0

  function own(work: Promise<void>): void {
    const owned = work.catch((error: unknown) => {
      if (!isClosed) logger.debug({ error: messageOf(error) }, 'what kubectl shows could not be written')
    })
    underway.add(owned)
    void owned.finally(() => underway.delete(owned))
  }

  async function showBuild(key: string): Promise<void> {
    const next = wanted.get(key)
    if (!next || isClosed) return
    wanted.delete(key)
    busy.add(key)
    const { failures = 0, refusedUpon } = troubles.get(key) ?? {}
    const upon = builds.actualRevision(next.ref)
    // Where its watch has not told yet what somebody else has written, it would be refused again.
    const outcome = upon === undefined || upon === refusedUpon ? 'refused' : await write(next)
    if (outcome === 'over' || (upon === undefined && failures >= mostPausesUnknown)) {
      troubles.delete(key)
    } else {
      troubles.set(key, { failures: failures + 1, ...(outcome === 'refused' && { refusedUpon: upon }) })
      if (!wanted.has(key)) wanted.set(key, next)
    }
    later(troubles.has(key) ? Math.min(longestPauseMs, betweenMs * 2 ** Math.min(failures, 10)) : betweenMs, () => {
      busy.delete(key)
      if (wanted.has(key)) own(showBuild(key))
    })
  }

  async function write(next: Wanted): Promise<'over' | 'refused' | 'failed'> {
    try {
      const { currentActive, currentStandingBy, currentPending, currentInitializing, rollout } = next.status
      const { currentStandingByReadyDesired } = next.status
      const figures = { currentActive, currentStandingBy, currentPending, currentInitializing }
      const all = { ...figures, currentStandingByReadyDesired, ...(rollout && { rollout }) }
      return (await builds.show(next.ref, all)) ? 'over' : 'refused'
    } catch (error) {
      // Whoever leads now shows figures of its own.
      if (isClosed || FleetError.is(error, 'not-leader')) return 'over'
      logger.debug({ error: messageOf(error) }, 'figures that kubectl shows could not be written yet')
      return 'failed'
    }
  }

  function later(ms: number, then: () => void): void {
    if (isClosed) return
    const cancel = clock.after(ms, () => {
      timers.delete(cancel)
      then()
    })
    timers.add(cancel)
  }

  /** What each server of a build meets in its turn, and meets again: one is told in a while, and leaves room for what else there is. */
  function isRepetition({ reason, about }: Told): boolean {
    if (reason !== 'ServerStartFailed' && reason !== 'ReconcileFailed') return false
    const key = `${reason} ${keyOf(about)}`
    const now = clock.elapsed()
    for (const [said, at] of saidAt) if (now - at >= repetitionMs) saidAt.delete(said)
    if (saidAt.has(key)) return true
    saidAt.set(key, now)
    return false
  }

  function mayTell(): boolean {
    const now = clock.elapsed()
    eventsLeft = Math.min(eventsAtOnce, eventsLeft + ((now - countedAt) / 1_000) * eventsPerSecond)
    countedAt = now
    if (eventsLeft < 1) return false
    eventsLeft--
    return true
  }

  async function tell({ type, reason, message, at, about }: Told): Promise<void> {
    const { namespace, name } = about
    const time = rfc3339(at).replace(/\.\d+Z$/, 'Z')
    const suffix = `${Math.floor(at).toString(16)}${(drawn++ % 4096).toString(16).padStart(3, '0')}`
    const body = {
      metadata: { namespace, name: `${name}.${suffix}` },
      involvedObject: about,
      ...{ type, reason, message: message.slice(0, 1_000) },
      ...{ firstTimestamp: time, lastTimestamp: time, count: 1 },
      source: { component: 'gamekeeper' },
    }
    await api.request({
      what: `create an event about ${namespace}/${name}`,
      method: 'POST',
      path: pathOf(kubeEvents, { namespace }),
      body,
    })
  }

  return {
    build(ref, status) {
      const key = keyOf(ref)
      wanted.set(key, { ref, status })
      if (!busy.has(key)) own(showBuild(key))
    },
    event(event) {
      const told = toldOf(event, parts)
      if (told && !isClosed && !isRepetition(told) && mayTell()) own(tell(told))
    },
    async close() {
      isClosed = true
      for (const cancel of timers) cancel()
      await Promise.all([...underway])
    },
  }

  function toldOf(event: FleetEvent, { ownerOfServer }: DisplayDependencies): Told | undefined {
    const { message, at } = event
    switch (event.type) {
      case 'BuildHealthChanged':
        return {
          type: event.health === 'Healthy' ? 'Normal' : 'Warning',
          reason: event.health,
          message,
          at,
          about: aboutBuild(event.build),
        }
      case 'ConditionChanged':
        return {
          type: event.status ? 'Warning' : 'Normal',
          reason: event.status ? event.condition : `${event.condition}Over`,
          ...{ message, at, about: aboutBuild(event.build) },
        }
      case 'TemplateFieldsSkipped':
      case 'BuildPatched':
      case 'BuildUpdated':
        return { type: 'Normal', reason: event.type, message, at, about: aboutBuild(event.build) }
      case 'ServerStartFailed':
      case 'ReconcileFailed':
        return { type: 'Warning', reason: event.type, message, at, about: aboutBuild(event.build) }
      case 'ServerEnding': {
        // Evicted, preempted, lost with its node or deleted by hand: nobody's fault, and nobody has asked for it either.
        if (!event.crash && event.reason !== 'Gone' && event.reason !== 'SessionTooLong') return undefined
        // The server is gone soon, and with it what is told of it: its build is where people look.
        return { type: 'Warning', reason: event.reason, message, at, about: aboutBuild(event.build) }
      }
      case 'ServerHealthChanged': {
        const owner = ownerOfServer(event.server)
        const about = { ...headOf(resources.servers), ...event.server, ...(owner && { uid: owner.uid }) }
        return event.health === 'Unhealthy' ? { type: 'Warning', reason: 'Unhealthy', message, at, about } : undefined
      }
      // They come by the dozen, or are seen in the objects themselves.
      case 'BuildCreated':
      case 'BuildDeleted':
      case 'BuildPreparing':
      case 'ServerCreated':
      case 'ServerStateChanged':
      case 'ServerRemoved':
      case 'Allocated':
      case 'PlayersChanged':
      case 'DrainProgress':
      case 'OrphanFound':
      case 'BackendUnavailable':
      case 'BackendRecovered':
      case 'LeadershipChanged':
      case 'WebhookFailed':
        return undefined
    }
  }

  function aboutBuild(ref: Ref): Told['about'] {
    const uid = builds.owner(ref)?.uid
    return { ...headOf(resources.builds), namespace: ref.namespace, name: ref.name, ...(uid !== undefined && { uid }) }
  }
}
