/** No server ends but for the reason that is given, and the reason is true. */
import type { EventOf } from '../../../contracts/events.js'
import type { FleetLimits } from '../../../contracts/options.js'
import type { InstanceSpec } from '../../../contracts/backend.js'
import { type LifeLimits, lifeLimits } from '../../../rules/lifecycle/limits.js'
import { type BuildSpec, keyOf } from '../../../rules/model/resources.js'
import type { BackendModel, ModelInstance } from '../backend-model.js'
import type { Host } from '../host.js'
import type { Lease } from '../lease.js'
import type { StoreModel } from '../store-model.js'
import type { World } from '../world.js'
import { runs } from './rollout.js'
import type { Seen } from './seen.js'
import type { Sessions } from './sessions.js'

export interface EndingParts {
  readonly backend: BackendModel
  readonly store: StoreModel
  readonly lease: Lease
  readonly sessions: Sessions
  /** What the leader said when it was last looked at. */
  readonly lastSeen: () => Seen | undefined
  readonly limits: Pick<FleetLimits, 'firstHeartbeatMs' | 'silenceMs' | 'heartbeatIntervalMs'>
}

export class Endings {
  /** Uids of servers that an operator has drained, by themselves or with their build. */
  readonly #drained = new Set<string>()
  /** Keys of builds that are being drained with their matches: also with those that begin before the drain is in force. */
  readonly #ending = new Set<string>()
  /** Hosts whose whole fleet is being drained. */
  readonly #drainingHosts = new WeakSet<Host>()
  /** By uid. */
  readonly #firstAsked = new Map<string, InstanceSpec>()

  constructor(
    readonly world: World,
    readonly parts: () => EndingParts,
  ) {}

  allowDrain(uid: string): void {
    this.#drained.add(uid)
  }

  /** Returns what forbids it again. */
  allowEndOf(build: string): () => void {
    this.#ending.add(build)
    return () => void this.#ending.delete(build)
  }

  allowDrainBy(host: Host): void {
    this.#drainingHosts.add(host)
  }

  /** The backend is asked for an instance: the first time decides what it runs, whatever is asked for later. */
  asked(spec: InstanceSpec): void {
    if (!this.#firstAsked.has(spec.uid)) this.#firstAsked.set(spec.uid, spec)
  }

  /** A game is told to end. If nobody plays on it, a host that came after must find that on record, or would hand it out. */
  told({ spec, game }: ModelInstance): void {
    const { store } = this.parts()
    const record = store.servers.get(keyOf(spec.ref))?.record
    if (record?.uid !== spec.uid || record.state === 'Terminating' || record.session) return
    // A call that created it took effect again, long after the server was gone: it is begun anew before anybody gets it.
    if (record.state === 'Pending') return
    if (!game?.running || game.state === 'Terminating') return
    if (store.builds.get(keyOf(spec.build))?.record.uid !== spec.build.uid) return
    this.world.breach(`${spec.ref.name} is told to end and has it on record as ${record.state}`)
  }

  /** Called in the instant in which a host decides that a server ends. */
  heard(host: Host, event: EventOf<'ServerEnding'>): void {
    const { backend, store, lease, sessions } = this.parts()
    if (host !== lease.leader) return
    const record = store.servers.get(keyOf(event.server))?.record
    if (!record) return
    const { uid, buildUid } = record
    const build = store.builds.get(keyOf(event.build))?.record
    const isDraining = build?.conditions.some(({ type }) => type === 'Draining') === true
    const asked =
      event.reason === 'Deleted'
        ? sessions.isAllowed(uid)
        : event.reason === 'BuildDeleted'
          ? sessions.isAllowed(buildUid)
          : event.reason !== 'Drained' || isDraining || this.#drained.has(uid) || this.#drainingHosts.has(host)
    if (!asked) this.#untrue(event, 'nobody asked for it')
    if (event.reason === 'Drained' && this.#ending.has(keyOf(event.build))) sessions.allowEnd(uid)
    if (event.reason === 'SessionTooLong') {
      const lastedMs = this.world.wallMs - (record.reachedActiveOn ?? Infinity) + this.world.skewMs
      const limits = this.#asked(keyOf(event.build)).map(({ health }) => (health?.endLongSessions ? health : {}))
      if (limits.some(({ sessionSeconds = Infinity }) => lastedMs >= sessionSeconds * 1000)) sessions.allowEnd(uid)
      else this.#untrue(event, `that was ${lastedMs} ms, and its build does not end such sessions`)
    }
    const instance = backend.instances.get(keyOf(event.server))
    if (!instance || instance.spec.uid !== uid || backend.vanished.has(uid)) return
    const excuse = this.#excuse(host, event, instance)
    if (excuse !== undefined) this.#untrue(event, excuse)
  }

  #untrue(event: EventOf<'ServerEnding'>, why: string): void {
    this.world.breach(`untrue reason: ${event.message} (${event.reason}), but ${why}`)
  }

  /** Why the given reason cannot be. */
  #excuse(host: Host, { reason, build }: EventOf<'ServerEnding'>, instance: ModelInstance): string | undefined {
    const { game, heard, spec } = instance
    // Long after the end of an instance a call that created it may take effect again: what is late may be said of the first.
    const { removed, exits: codes } = this.parts().backend
    const exits = codes.get(spec.uid) ?? []
    const limits = this.#limits(keyOf(build))
    switch (reason) {
      case 'Exited':
        return game?.running && game.state !== 'Terminating' && !exits.includes(0) ? 'its process runs' : undefined
      case 'NonZeroExit':
        return exits.some((code) => code !== 0) ? undefined : 'its process did not exit so'
      case 'Gone':
        return removed.has(spec.uid) ? undefined : 'it is there'
      case 'Silent':
        return this.#tooSoon(limits.silenceMs, host, heard?.at)
      case 'NeverSpoke':
        return this.#tooSoon(limits.firstHeartbeatMs, host, instance.runsSince, heard?.by === host ? heard.at : 0)
      case 'NeverReady':
        return this.#tooSoon(limits.initializingMs, host, instance.runsSince)
      case 'ReportedUnhealthy':
        return game?.character === 'turns-unhealthy' || game?.character === 'ails' ? undefined : 'it is healthy'
      case 'Replaced':
        return this.#isOfToday(instance, keyOf(build)) ? 'it runs what its build says' : undefined
      // These are somebody's wish, and looked at elsewhere.
      case 'ScaledDown':
      case 'Deleted':
      case 'BuildDeleted':
      case 'Drained':
      case 'SessionTooLong':
        return undefined
    }
  }

  /** This host must have listened for the whole limit, and in vain. */
  #tooSoon(limitMs: number, host: Host, ...since: readonly (number | undefined)[]): string | undefined {
    const begun = Math.max(host.hearsSince, this.parts().lease.leadsSince, ...since.map((ms) => ms ?? 0))
    const listenedMs = this.world.elapsedMs - begun
    return listenedMs < limitMs ? `that was ${listenedMs} ms, and ${limitMs} are allowed` : undefined
  }

  /** By all that is durable now and by all that the fleet may still go by. */
  #isOfToday({ spec }: ModelInstance, build: string): boolean {
    // Deleted by hand: what it said last may have been different, and nobody can tell any more.
    if (!this.parts().store.builds.has(build)) return false
    const first = this.#firstAsked.get(spec.uid) ?? spec
    return this.#asked(build).every((one) => runs(spec, one) && runs(first, one))
  }

  /** What a build asks for: what is durable now, and what the fleet may still go by. */
  #asked(build: string): readonly BuildSpec[] {
    const { store, lastSeen } = this.parts()
    const seen = lastSeen()?.builds.find((one) => keyOf(one.metadata) === build)
    return [store.builds.get(build)?.record.spec, seen?.spec].filter((spec) => spec !== undefined)
  }

  /** The shortest that may hold. */
  #limits(build: string): Required<Omit<LifeLimits, 'sessionMs'>> {
    const { limits } = this.parts()
    const all = this.#asked(build).map(({ health }) => lifeLimits(health, limits))
    // Its build is gone, and what it asked for is not known any more.
    if (all.length === 0) return { firstHeartbeatMs: 0, silenceMs: 0, initializingMs: 0 }
    return {
      firstHeartbeatMs: Math.min(...all.map((one) => one.firstHeartbeatMs)),
      silenceMs: Math.min(...all.map((one) => one.silenceMs)),
      initializingMs: Math.min(...all.map((one) => one.initializingMs ?? Infinity)),
    }
  }
}
