/**
 * Invariants: external edits to the store take effect within a bounded time, and a server whose record was deleted is
 * terminated. Counts only "fair" time, during which the leader can receive the edit and act on it.
 */
import { isDeepStrictEqual } from 'node:util'
import { type Build, keyOf, type Server } from '../../../src/rules/model/resources.js'
import type { GameServerBuild } from '../../../src/rules/model/wire.js'
import type { BackendModel } from '../models/backend-model.js'
import type { StoreModel } from '../models/store-model.js'
import type { Host } from '../world/host.js'
import type { World } from '../world/world.js'
import { type FleetSnapshot, reservedIn } from './snapshot.js'
import { isInvalidSpec } from './spec-checks.js'

export interface ExternalEditsDependencies {
  readonly store: StoreModel
  readonly backend: BackendModel
}

export interface ExternalEditLimits {
  /** Maximum time for an edit to take effect. */
  readonly editMs: number
  /** Maximum time until a server whose record was deleted is terminated. */
  readonly terminateMs: number
}

interface DeletedRecord {
  readonly server: Server
  readonly fairMs: number
  /** The leadership term of the deletion. Later leaders see an unknown instance and let a match on it continue. */
  readonly term: number
}

export class ExternalEdits {
  #fairMs = 0
  #countedUntil = 0
  #leader: Host | undefined
  /** The number of the current leadership term. Each new term starts without state, even on the same host. */
  #term = 0
  /** Whether the leader has loaded the store and watches it. */
  #isLoaded = false
  /** Fair time in ms at which each difference was first seen, by description. */
  #since = new Map<string, number>()
  readonly #deleted = new Map<string, DeletedRecord>()

  constructor(
    readonly world: World,
    readonly deps: () => ExternalEditsDependencies,
    readonly limits: ExternalEditLimits,
  ) {}

  /** Called just before the record of this server is deleted externally. */
  recordDeleted(server: Server): void {
    // A leader that has not loaded the store yet will never see the record: treat it as deleted in the previous term.
    const term = this.#isLoaded ? this.#term : this.#term - 1
    this.#deleted.set(server.uid, { server, fairMs: this.#fairMs, term })
  }

  /** Called at every step. `isLoaded`: whether the leader has loaded the store. `fair`: whether the leader can act. */
  timePassed(fair: boolean, isLoaded: boolean, leader: Host | undefined): void {
    const { store } = this.deps()
    if (leader !== this.#leader) {
      this.#since = new Map()
      this.#term++
    }
    this.#leader = leader
    this.#isLoaded = isLoaded
    const isWatching = leader !== undefined && !store.dropsReplies && !store.watches.isInterrupted(leader)
    if (fair && isLoaded && isWatching) this.#fairMs += this.world.elapsedMs - this.#countedUntil
    this.#countedUntil = this.world.elapsedMs
  }

  check(snapshot: FleetSnapshot): void {
    const { store } = this.deps()
    if (!store.watched) return
    const differences = [...this.#differences(snapshot)]
    this.#since = new Map(differences.map((what) => [what, this.#since.get(what) ?? this.#fairMs]))
    for (const [what, since] of this.#since) {
      const ms = this.#fairMs - since
      if (ms > this.limits.editMs) this.world.violate(`an external edit had no effect for ${ms / 1000} s: ${what}`)
    }
    for (const [uid, deleted] of this.#deleted) this.#checkDeleted(uid, deleted)
  }

  *#differences(snapshot: FleetSnapshot): Generator<string> {
    const { builds } = snapshot
    const { store } = this.deps()
    const known = new Map(builds.map((build) => [keyOf(build.metadata), build]))
    const all = [...store.builds.values()].map(({ record }) => record)
    for (const record of all) {
      const build = known.get(keyOf(record))
      if (!build) yield `build ${record.name} was created`
      else if (!isDeepStrictEqual(build.spec, record.spec)) {
        yield `build ${record.name} has ${JSON.stringify(record.spec)}, the fleet has ${JSON.stringify(build.spec)}`
      } else yield* wrongConditions(build, all)
      if (build && hasTooMany(build, reservedIn(snapshot, record.name).length))
        yield `build ${record.name} has too many servers for max ${build.spec.max}`
    }
    for (const [key, { metadata }] of known) if (!store.builds.has(key)) yield `build ${metadata.name} was deleted`
  }

  #checkDeleted(uid: string, { server, fairMs, term }: DeletedRecord): void {
    const instance = this.deps().backend.instances.get(keyOf(server))
    if (instance?.spec.uid !== uid) return void this.#deleted.delete(uid)
    if (term !== this.#term && instance.game?.state === 'Active') return
    const ms = this.#fairMs - fairMs
    if (ms <= this.limits.terminateMs) return
    this.world.violate(`the record of ${server.name} was deleted, but it has been running for ${ms / 1000} s since`)
  }
}

/** The conditions `Clamped` and `Invalid` must be set exactly when the spec requires them. */
function* wrongConditions({ metadata, spec, status }: GameServerBuild, all: readonly Build[]): Generator<string> {
  const has = (type: string) => status.conditions?.some((condition) => condition.type === type) === true
  if (has('Clamped') !== spec.standingBy > spec.max) {
    yield `build ${metadata.name} has standingBy ${spec.standingBy}, max ${spec.max}, but Clamped is ${has('Clamped')}`
  }
  // If two builds share a buildID, one of them is Invalid. Which one depends on their order, so neither is checked.
  const sameID = all.filter((other) => other.spec.buildID === spec.buildID).length
  if (sameID === 1 && has('Invalid') !== isInvalidSpec(spec)) {
    yield `build ${metadata.name} has ${JSON.stringify(spec)}, but Invalid is ${has('Invalid')}`
  }
}

/** Reserved servers stay, like Active ones. */
function hasTooMany({ spec, status }: GameServerBuild, reserved: number): boolean {
  const idle = status.currentPending + status.currentInitializing + status.currentStandingBy - reserved
  return idle > 0 && idle + reserved + status.currentActive > spec.max
}
