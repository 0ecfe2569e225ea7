/** Invariant: whenever a server is terminated, the reported reason is true. */
import type { InstanceSpec } from '../../../../src/contracts/backend.js'
import type { EventOf } from '../../../../src/contracts/events.js'
import type { FleetLimits } from '../../../../src/contracts/options.js'
import { type LifeLimits, lifeLimits } from '../../../../src/rules/lifecycle/health.js'
import { type Build, type BuildSpec, keyOf, type Ref, type Server } from '../../../../src/rules/model/resources.js'
import type { BackendModel, ModelInstance } from '../../models/backend-model.js'
import type { StoreModel } from '../../models/store-model.js'
import type { Host } from '../../world/host.js'
import type { Lease } from '../../world/lease.js'
import type { World } from '../../world/world.js'
import type { Claims } from '../allocations/claims.js'
import type { Sessions } from '../allocations/sessions.js'
import type { ProbedServers } from '../probed-servers.js'
import type { Records } from '../records.js'
import type { UnheardServers } from '../allocations/unheard-servers.js'
import type { FleetSnapshot } from '../snapshot.js'
import { runsSpec } from '../spec-checks.js'

export interface TerminationsDependencies {
  readonly backend: BackendModel
  readonly store: StoreModel
  readonly lease: Lease
  readonly records: Pick<Records, 'isRecreated'>
  readonly sessions: Sessions
  readonly claims: Pick<Claims, 'objectionTo'>
  readonly probedServers: Pick<ProbedServers, 'isEndOfSession' | 'objectionTo'>
  readonly unheardServers: Pick<UnheardServers, 'hasHeard'>
  readonly lastSnapshot: () => FleetSnapshot | undefined
  readonly limits: Pick<FleetLimits, 'firstHeartbeatMs' | 'silenceMs' | 'lateStartMs' | 'heartbeatIntervalMs'>
}

/** Longer than a host is suspended. */
const recentMs = 30_000
/** In this time after it woke up, a host learns of what happened meanwhile. */
const catchUpMs = 2_000

export class Terminations {
  /** Uids of servers that an operator drained, individually or with their build. */
  readonly #drained = new Set<string>()
  /** Keys of builds whose drain also ends matches, including matches that start before the drain is stored. */
  readonly #drainedWithMatches = new Set<string>()
  /** Hosts that are draining the whole fleet. */
  readonly #drainingHosts = new WeakSet<Host>()
  /** The spec with which each instance was first created, by uid. */
  readonly #createdWith = new Map<string, InstanceSpec>()
  /** Elapsed ms at which each instance was last created, by uid. */
  readonly #createdAt = new Map<string, number>()
  /** The specs that builds got lately, by key. A host that was suspended learns of one after the other. */
  readonly #recentSpecs = new Map<string, readonly { readonly spec: BuildSpec; readonly at: number }[]>()
  /** The host that recorded each server, and when, by key. */
  readonly #recordedBy = new Map<string, { readonly host: Host; readonly at: number }>()

  constructor(
    readonly world: World,
    readonly deps: () => TerminationsDependencies,
  ) {}

  allowDrain(uid: string): void {
    this.#drained.add(uid)
  }

  /** Permits a drain to end matches of this build. Returns a function that revokes the permission. */
  allowDrainOfMatches(build: string): () => void {
    this.#drainedWithMatches.add(build)
    return () => void this.#drainedWithMatches.delete(build)
  }

  allowDrainBy(host: Host): void {
    this.#drainingHosts.add(host)
  }

  /** Called when a build is stored. */
  buildWritten(build: Build): void {
    const key = keyOf(build)
    this.#recentSpecs.set(key, [...this.#recentOf(key), { spec: build.spec, at: this.world.elapsedMs }])
  }

  /** Called when the fleet creates an instance. Remembers the first create, which determines what the instance runs. */
  created(spec: InstanceSpec): void {
    if (!this.#createdWith.has(spec.uid)) this.#createdWith.set(spec.uid, spec)
    this.#createdAt.set(spec.uid, this.world.elapsedMs)
  }

  /** Called when a host records a new server. */
  recorded(host: Host, { server }: EventOf<'ServerCreated'>): void {
    this.#recordedBy.set(keyOf(server), { host, at: this.world.elapsedMs })
  }

  /**
   * Called when a game receives Terminate. If the server has no session, Terminating must already be stored: otherwise a later
   * leader could allocate the server.
   */
  gameTerminated({ spec, game }: ModelInstance): void {
    const { store } = this.deps()
    const record = store.servers.get(keyOf(spec.ref))?.record
    if (record?.uid !== spec.uid || record.state === 'Terminating' || record.sessions[0]) return
    // A late create recreated the record of a deleted server. The server starts over before it can be allocated.
    if (record.state === 'Pending') return
    if (!game?.running || game.state === 'Terminating') return
    if (store.builds.get(keyOf(spec.build))?.record.uid !== spec.build.uid) return
    this.world.violate(`${spec.ref.name} received Terminate but is ${record.state} in the store`)
  }

  /** Called synchronously when a host decides to terminate a server. */
  decided(host: Host, event: EventOf<'ServerEnding'>): void {
    const { backend, claims, probedServers, records, store, lease, sessions } = this.deps()
    if (host !== lease.leader) return
    const record = store.servers.get(keyOf(event.server))?.record
    if (!record) return
    const { uid, buildUid } = record
    const build = store.builds.get(keyOf(event.build))?.record
    // Another session of the same atomic batch got no server, so no caller has been told of this one.
    if (event.reason === 'SessionEnded' && event.message.includes('a batch that could not be')) sessions.allowEnd(uid)
    const isDraining = build?.conditions.some(({ type }) => type === 'Draining') === true
    const isLeftOver = event.reason === 'Deleted' && !record.sessions[0] && records.isRecreated(record)
    const isAllowed =
      event.reason === 'Deleted' || event.reason === 'SessionEnded'
        ? isLeftOver || sessions.isAllowed(uid)
        : event.reason === 'BuildDeleted'
          ? sessions.isAllowed(buildUid)
          : event.reason !== 'Drained' || isDraining || this.#drained.has(uid) || this.#drainingHosts.has(host)
    if (!isAllowed) this.#reportUntrue(event, 'no operator requested it')
    if (event.reason === 'Drained' && this.#drainedWithMatches.has(keyOf(event.build))) sessions.allowEnd(uid)
    if (event.reason === 'SessionTooLong') {
      const lastedMs = this.world.wallMs - (record.reachedActiveOn ?? Infinity) + this.world.skewMs
      const limits = this.#specsOf(keyOf(event.build)).map(({ health }) => (health?.endLongSessions ? health : {}))
      if (limits.some(({ sessionSeconds = Infinity }) => lastedMs >= sessionSeconds * 1000)) sessions.allowEnd(uid)
      else this.#reportUntrue(event, `it lasted ${lastedMs} ms and its build allows that`)
    }
    if (event.reason === 'Unclaimed') {
      const why = claims.objectionTo(host, event, uid)
      if (why === undefined) sessions.allowEnd(uid)
      else this.#reportUntrue(event, why)
    }
    if (event.reason === 'Late') this.#checkLate(event, record)
    const probed = probedServers.objectionTo(host, event, record)
    if (probed !== undefined) this.#reportUntrue(event, probed)
    if (probedServers.isEndOfSession(event)) return sessions.allowEnd(uid)
    const instance = backend.instances.get(keyOf(event.server))
    if (!instance || instance.spec.uid !== uid || backend.deletedExternally.has(uid)) return
    const objection = this.#objectionTo(host, event, instance)
    if (objection !== undefined) this.#reportUntrue(event, objection)
  }

  /** A new leader counts from the creation of the record. */
  #checkLate(event: EventOf<'ServerEnding'>, { createdAt }: Server): void {
    const ageMs = this.world.wallMs - createdAt + this.world.skewMs
    const { lateStartMs } = this.#limits(keyOf(event.build))
    if (ageMs < lateStartMs) this.#reportUntrue(event, `it is ${ageMs} ms old`)
  }

  /** The spec may have had another age when the server was chosen. */
  #objectionToAge(server: Ref, build: string): string | undefined {
    const { store } = this.deps()
    const { maxIdleAgeSeconds = 60 } = store.builds.get(build)?.record.spec.scaling ?? {}
    const { reachedStandingByOn = -Infinity } = store.servers.get(keyOf(server))?.record ?? {}
    const ageMs = this.world.wallMs - reachedStandingByOn + this.world.skewMs
    return ageMs < Math.min(maxIdleAgeSeconds, 60) * 1_000 ? `it has been standing by for ${ageMs} ms` : undefined
  }

  #reportUntrue(event: EventOf<'ServerEnding'>, why: string): void {
    this.world.violate(`untrue reason: ${event.message} (${event.reason}), but ${why}`)
  }

  /** Explains why the reported reason is false, or returns undefined if it may be true. */
  #objectionTo(host: Host, event: EventOf<'ServerEnding'>, instance: ModelInstance): string | undefined {
    const { message, reason, build, server } = event
    const { game, lastHeartbeat, spec } = instance
    // If a late create recreates a deleted instance, late events may still refer to the first instance.
    const { removed, exits: codes } = this.deps().backend
    const exits = codes.get(spec.uid) ?? []
    const limits = this.#limits(keyOf(build))
    switch (reason) {
      case 'Exited':
        return game?.running && game.state !== 'Terminating' && !exits.includes(0)
          ? 'its process is running'
          : undefined
      case 'NonZeroExit':
        if (!exits.some((code) => code !== 0)) return 'its process did not exit with an error'
        return this.#startedWhileAway(host, spec) ? 'its host was away when it started' : undefined
      case 'AgentAway':
        return this.#startedWithHost(host, spec) ? 'its host was there when it started' : undefined
      case 'Gone':
        return removed.has(spec.uid) ? undefined : 'its instance exists'
      case 'Silent':
        return this.#tooSoon(limits.silenceMs, host, lastHeartbeat?.at)
      case 'NeverSpoke':
        return this.#tooSoon(
          limits.firstHeartbeatMs,
          host,
          instance.runningSince,
          lastHeartbeat?.by === host ? lastHeartbeat.at : 0,
        )
      case 'NeverReady':
        return this.#tooSoon(limits.initializingMs, host, instance.runningSince)
      case 'ReportedUnhealthy':
        // Games without an SDK say nothing of their health.
        return game &&
          (game.deps.isProbed || ['turns-unhealthy', 'flaky-health', 'always-unhealthy'].includes(game.behavior))
          ? undefined
          : 'it is healthy'
      case 'Replaced':
        if (message.endsWith('standing by for too long')) return this.#objectionToAge(server, keyOf(build))
        return this.#runsCurrentSpec(host, instance, keyOf(build)) ? 'it runs the current spec' : undefined
      // The truth of these reasons is not checked here.
      case 'Late':
      case 'ScaledDown':
      case 'Deleted':
      case 'BuildDeleted':
      case 'Drained':
      case 'SessionTooLong':
      case 'Unclaimed':
      case 'SessionEnded':
        return undefined
    }
  }

  /** True if the instance was certainly created before the host led, and no host has heard it. */
  #startedWhileAway(host: Host, { ref, uid }: InstanceSpec): boolean {
    const { store, lease, unheardServers } = this.deps()
    const isFromEarlierTerm = (this.#createdAt.get(uid) ?? Infinity) < lease.electedAt
    return (
      isFromEarlierTerm &&
      store.servers.get(keyOf(ref))?.record.health === 'Unknown' &&
      !unheardServers.hasHeard(host, uid)
    )
  }

  /** True if the host has certainly been there since it recorded the server. */
  #startedWithHost(host: Host, { ref }: InstanceSpec): boolean {
    const recorded = this.#recordedBy.get(keyOf(ref))
    return recorded?.host === host && recorded.at > Math.max(this.deps().lease.electedAt, host.awakeSince)
  }

  /** Checks that the host has listened for the whole limit without receiving a heartbeat. */
  #tooSoon(limitMs: number, host: Host, ...since: readonly (number | undefined)[]): string | undefined {
    const startedAt = Math.max(host.listeningSince, this.deps().lease.electedAt, ...since.map((ms) => ms ?? 0))
    const listenedMs = this.world.elapsedMs - startedAt
    return listenedMs < limitMs ? `it listened for ${listenedMs} ms and the limit is ${limitMs} ms` : undefined
  }

  /** True if the instance matches both the stored spec and the spec that the fleet may still use. */
  #runsCurrentSpec(host: Host, { spec }: ModelInstance, build: string): boolean {
    // The build was deleted externally, and perhaps created again, so the last spec of the instance's own is unknown.
    if (this.deps().store.builds.get(build)?.record.uid !== spec.build.uid) return false
    const first = this.#createdWith.get(spec.uid) ?? spec
    const hasJustWoken = this.world.elapsedMs - host.awakeSince < catchUpMs
    const recent = hasJustWoken ? this.#recentOf(build).map((one) => one.spec) : []
    const specs = [...this.#specsOf(build), ...recent]
    return specs.every((one) => runsSpec(spec, one) && runsSpec(first, one))
  }

  #recentOf(build: string) {
    const since = this.world.elapsedMs - recentMs
    return (this.#recentSpecs.get(build) ?? []).filter(({ at }) => at > since)
  }

  /** Returns the stored spec of a build and the spec that the fleet may still use. */
  #specsOf(build: string): readonly BuildSpec[] {
    const { store, lastSnapshot } = this.deps()
    const snapshot = lastSnapshot()?.builds.find((one) => keyOf(one.metadata) === build)
    return [store.builds.get(build)?.record.spec, snapshot?.spec].filter((spec) => spec !== undefined)
  }

  /** Returns the shortest limits that may apply. */
  #limits(build: string): Required<Omit<LifeLimits, 'sessionMs'>> {
    const { limits } = this.deps()
    const all = this.#specsOf(build).map(({ health }) => lifeLimits(health, limits))
    // The build was deleted, so its limits are unknown.
    if (all.length === 0) return { firstHeartbeatMs: 0, silenceMs: 0, lateStartMs: 0, initializingMs: 0 }
    return {
      firstHeartbeatMs: Math.min(...all.map((one) => one.firstHeartbeatMs)),
      silenceMs: Math.min(...all.map((one) => one.silenceMs)),
      lateStartMs: Math.min(...all.map((one) => one.lateStartMs)),
      initializingMs: Math.min(...all.map((one) => one.initializingMs ?? Infinity)),
    }
  }
}
