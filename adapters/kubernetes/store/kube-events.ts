/** Which fleet events become Kubernetes Events, and the writer that creates them at a limited rate. */
import type { Clock } from '../../../src/contracts/clock.js'
import type { EventOf, FleetEvent } from '../../../src/contracts/events.js'
import type { Logger } from '../../../src/contracts/logger.js'
import { keyOf, type Ref } from '../../../src/rules/model/resources.js'
import type { ApiContext, KubernetesApi } from '../client/api.js'
import { kubeEvents, pathOf, rfc3339 } from '../client/kube-objects.js'
import { TokenBucket } from '../client/rate-limiter.js'

export interface KubeEvent {
  readonly type: 'Normal' | 'Warning'
  readonly reason: string
  readonly message: string
  readonly at: number
  readonly object: InvolvedObject
  /** Whether hosts that do not lead may report it too. */
  readonly byAnyHost?: boolean
}

export interface InvolvedObject extends Ref {
  readonly kind: string
  readonly apiVersion: string
  readonly uid?: string
}

export interface ObjectLookup {
  build(ref: Ref): InvolvedObject
  server(ref: Ref): InvolvedObject
}

/** What happens in every healthy fleet, and often. */
export function isRoutine(event: FleetEvent): boolean {
  if (event.type === 'ServerEnding') return !isUnwanted(event)
  return event.type === 'BuildCreated' || event.type === 'ServerCreated' || event.type === 'Allocated'
}

/**
 * Whether the fleet did not decide on this end: a crash, an eviction, a lost node, an external deletion; or a session lasted too
 * long, or got no players.
 */
function isUnwanted({ crash, reason }: EventOf<'ServerEnding'>): boolean {
  return crash || reason === 'Gone' || reason === 'SessionTooLong' || reason === 'Unclaimed'
}

/** Returns undefined for events that are too frequent or are already visible in the objects. */
export function kubeEventOf(event: FleetEvent, objects: ObjectLookup): KubeEvent | undefined {
  const { message, at } = event
  switch (event.type) {
    case 'BuildHealthChanged': {
      const type = event.health === 'Healthy' ? 'Normal' : 'Warning'
      return { type, reason: event.health, message, at, object: objects.build(event.build) }
    }
    case 'ConditionChanged': {
      const [type, reason] = event.status
        ? (['Warning', event.condition] as const)
        : (['Normal', `${event.condition}Over`] as const)
      return { type, reason, message, at, object: objects.build(event.build) }
    }
    case 'TemplateFieldsSkipped':
    case 'BuildPatched':
    case 'StandingByDecided':
    case 'BuildUpdated':
      return { type: 'Normal', reason: event.type, message, at, object: objects.build(event.build) }
    case 'MetadataKeysReserved':
    case 'ServerLate':
    case 'ServerStartFailed':
    case 'ReconcileFailed':
      return { type: 'Warning', reason: event.type, message, at, object: objects.build(event.build) }
    case 'ServerEnding': {
      if (event.reason === 'BuildDeleted') return undefined
      // The Event refers to the build, because the server and its Events are about to be deleted.
      const type = isUnwanted(event) ? 'Warning' : 'Normal'
      return { type, reason: event.reason, message, at, object: objects.build(event.build) }
    }
    // The server may have no object yet.
    case 'BuildCreated':
    case 'ServerCreated':
      return { type: 'Normal', reason: event.type, message, at, object: objects.build(event.build) }
    case 'Allocated':
    case 'SessionEnded':
      return { type: 'Normal', reason: event.type, message, at, object: objects.server(event.server) }
    case 'ServerHealthChanged':
      if (event.health !== 'Unhealthy') return undefined
      return { type: 'Warning', reason: 'Unhealthy', message, at, object: objects.server(event.server) }
    case 'MaintenanceAnnounced':
    case 'MaintenanceWithdrawn':
    case 'ServerReserved':
    case 'ReservationReleased':
    case 'ReservationLapsed':
      return { type: 'Normal', reason: event.type, message, at, object: objects.server(event.server) }
    case 'BuildDeleted':
    case 'BuildPreparing':
    case 'ServerStateChanged':
    case 'ServerDataChanged':
    case 'ServerRemoved':
    case 'Audited':
    case 'PlayersChanged':
    case 'SeatsReserved':
    case 'SeatsReleased':
    case 'SeatsLapsed':
    case 'DrainProgress':
    case 'OrphanFound':
    case 'StoreDamaged':
    case 'BackendUnavailable':
    case 'BackendRecovered':
    case 'LeadershipChanged':
    case 'WebhookFailed':
      return undefined
  }
}

const limits = { burst: 50, perSecond: 5 }
/** For each object, so that one failing build leaves room for Events about others. */
const objectLimits = { burst: 20, perSecond: 1 }
/** For what happens in every healthy fleet. Such Events have a limit of their own, and leave the ones above to failures. */
const routineLimits = { burst: 20, perSecond: 1 }
/** For each build, failures of the same kind are reported at most once in this time. */
const repetitionMs = 60_000
const repeatedReasons: ReadonlySet<string> = new Set(['ServerStartFailed', 'ServerLate', 'ReconcileFailed'])

/** Creates Kubernetes Events at a limited rate; without the limit, a failing build would flood the cluster with them. */
export class EventWriter {
  readonly #api: KubernetesApi
  readonly #clock: Clock
  readonly #work: BackgroundWork
  /** Elapsed ms of the last event for each combination of build and kind of failure. */
  readonly #lastFailures = new Map<string, number>()
  readonly #all: TokenBucket
  readonly #routine: TokenBucket
  readonly #byObject = new Map<string, TokenBucket>()
  #count = 0

  constructor({ api, clock }: Pick<ApiContext, 'api' | 'clock'>, work: BackgroundWork) {
    this.#api = api
    this.#clock = clock
    this.#work = work
    const now = clock.elapsed()
    this.#all = new TokenBucket(limits, now)
    this.#routine = new TokenBucket(routineLimits, now)
  }

  /** `isRoutine`: it tells what happens in every healthy fleet. */
  write(event: KubeEvent, isRoutine = false): void {
    if (this.#work.closed || this.#isRepetition(event)) return
    const now = this.#clock.elapsed()
    const hasRoom = isRoutine ? this.#routine.take(now) : this.#takeFromBoth(event, now)
    if (hasRoom) this.#work.run(this.#create(event))
  }

  /** Asks for the limit of all first: buckets of objects are then as few as the Events that were written lately. */
  #takeFromBoth(event: KubeEvent, now: number): boolean {
    return this.#all.has(now) && this.#ofObject(event, now).take(now) && this.#all.take(now)
  }

  #ofObject({ object: { kind, namespace, name } }: KubeEvent, now: number): TokenBucket {
    const key = `${kind} ${namespace}/${name}`
    const known = this.#byObject.get(key)
    if (known) return known
    for (const [old, bucket] of this.#byObject) if (bucket.isFull(now)) this.#byObject.delete(old)
    const bucket = new TokenBucket(objectLimits, now)
    this.#byObject.set(key, bucket)
    return bucket
  }

  /** A single cause may make all servers of a build fail repeatedly. */
  #isRepetition({ reason, object }: KubeEvent): boolean {
    if (!repeatedReasons.has(reason)) return false
    const key = `${reason} ${keyOf(object)}`
    const now = this.#clock.elapsed()
    for (const [old, at] of this.#lastFailures) if (now - at >= repetitionMs) this.#lastFailures.delete(old)
    if (this.#lastFailures.has(key)) return true
    this.#lastFailures.set(key, now)
    return false
  }

  async #create({ type, reason, message, at, object, byAnyHost = false }: KubeEvent): Promise<void> {
    const { namespace, name } = object
    const time = rfc3339(at).replace(/\.\d+Z$/, 'Z')
    const suffix = `${Math.floor(at).toString(16)}${(this.#count++ % 4096).toString(16).padStart(3, '0')}`
    const body = {
      metadata: { namespace, name: `${name}.${suffix}` },
      involvedObject: object,
      type,
      reason,
      message: message.slice(0, 1_000),
      firstTimestamp: time,
      lastTimestamp: time,
      count: 1,
      source: { component: 'gamekeeper' },
    }
    await this.#api.request({
      what: `create an event for ${namespace}/${name}`,
      method: 'POST',
      path: pathOf(kubeEvents, { namespace }),
      body,
      unfenced: byAnyHost,
    })
  }
}

/** Runs writes that no caller waits for and logs their failures. `settled` waits for the writes in progress. */
export class BackgroundWork {
  readonly #logger: Logger
  readonly #running = new Set<Promise<void>>()
  #closed = false

  constructor(logger: Logger) {
    this.#logger = logger
  }

  get closed(): boolean {
    return this.#closed
  }

  run(work: Promise<void>): void {
    const owned = work.catch((error: unknown) => {
      if (!this.#closed) this.#logger.debug({ err: error }, 'cannot write build counts or events for kubectl')
    })
    this.#running.add(owned)
    void owned.finally(() => this.#running.delete(owned))
  }

  close(): void {
    this.#closed = true
  }

  async settled(): Promise<void> {
    await Promise.all([...this.#running])
  }
}
