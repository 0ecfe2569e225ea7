/**
 * Invariants: a build never has more late servers than it wants, and starts others beside them as far as `max` allows; and a
 * server gets its first create call soon, unless another create of the same build is in progress.
 */
import { standingByOf } from '../../../src/rules/model/build-status.js'
import type { EventOf } from '../../../src/contracts/events.js'
import { keyOf } from '../../../src/rules/model/resources.js'
import { buildHealth } from '../../../src/rules/model/build-status.js'
import type { GameServer, GameServerBuild } from '../../../src/rules/model/wire.js'
import type { BackendModel } from '../models/backend-model.js'
import type { StoreModel } from '../models/store-model.js'
import type { World } from '../world/world.js'
import type { WaitingCallers } from './allocations/waiting-callers.js'
import { buildNameOf, hasDuplicateBuildID, isDraining, isInvalid, isReserved, type FleetSnapshot } from './snapshot.js'

/** For reconciles and expected retries. */
const toleranceMs = 10_000
/** A back-off after crashes delays new servers. */
const backoffMs = 75_000
/** A failed write of the record delays the create, by at most `backoffMaxMs`. Counts from the latest failure. */
const firstCreateMs = 70_000

export class LateStarts {
  /** Names of servers that were late under the current leader. */
  readonly #late = new Set<string>()
  /** Names of servers for which the current leader has called create. */
  readonly #asked = new Set<string>()
  /** Number of create calls in progress under the current leader, by build name. */
  #creating = new Map<string, number>()
  /** Fair time of the latest failed action under the current leader, by build name. */
  #failedMs = new Map<string, number>()
  #fairMs = 0
  #countedUntil = 0
  /** Fair time since which each problem has lasted. */
  #since = new Map<string, number>()

  constructor(
    readonly world: World,
    readonly deps: () => {
      readonly backend: BackendModel
      readonly store: StoreModel
      readonly waitingCallers: WaitingCallers
    },
  ) {}

  leaderElected(): void {
    this.#late.clear()
    this.#asked.clear()
    this.#creating = new Map()
    this.#failedMs.clear()
    this.#since.clear()
  }

  serverLate({ server }: EventOf<'ServerLate'>): void {
    this.#late.add(server.name)
  }

  /**
   * Called when the leader reports a failed action. If it was the write of a record, the server has its first create only after
   * the next attempt, which the back-off delays, and which may fail too: the store refuses single calls in fair time as well.
   * The event does not say which server of the build it was. Without further failures the limit holds from here on.
   */
  reconcileFailed({ build }: EventOf<'ReconcileFailed'>): void {
    this.#failedMs.set(build.name, this.#fairMs)
  }

  /** Called when the leader calls create. Returns a function to call when it has its answer. */
  createCalled(build: string, server: string): () => void {
    const calls = this.#creating
    this.#asked.add(server)
    calls.set(build, (calls.get(build) ?? 0) + 1)
    let isInProgress = true
    return () => {
      if (isInProgress) calls.set(build, (calls.get(build) ?? 1) - 1)
      isInProgress = false
    }
  }

  /** Called at every step. */
  timePassed(fair: boolean): void {
    if (fair) this.#fairMs += this.world.elapsedMs - this.#countedUntil
    else this.#since.clear()
    this.#countedUntil = this.world.elapsedMs
  }

  check(snapshot: FleetSnapshot): void {
    const before = this.#since
    const since = new Map<string, number>()
    const report = (problem: string, limitMs: number, notBeforeMs = 0) => {
      const from = Math.max(before.get(problem) ?? this.#fairMs, notBeforeMs)
      since.set(problem, from)
      if (this.#fairMs - from > limitMs) this.world.violate(`for ${this.#fairMs - from} ms: ${problem}`)
    }
    for (const build of snapshot.builds) this.#checkBuild(build, snapshot, report)
    this.#since = since
  }

  #checkBuild(
    build: GameServerBuild,
    snapshot: FleetSnapshot,
    report: (problem: string, limitMs: number, notBeforeMs?: number) => void,
  ) {
    const { spec, status, metadata } = build
    // Then it is unclear for which build a caller waits, or the build gets no servers.
    if (hasDuplicateBuildID(build, snapshot.builds) || isInvalid(build) || isDraining(build)) return
    const { waitingCallers } = this.deps()
    const servers = [...snapshot.servers.values()].filter((server) => buildNameOf(server) === metadata.name)
    const late = servers.filter(
      (server) => isStarting(server) && !isReserved(server) && this.#late.has(server.metadata.name),
    ).length
    const callers = waitingCallers.waitingCount(snapshot.host, spec.buildID)
    const expected = waitingCallers.expectedCount(snapshot.host, spec.buildID)
    const wanted = standingByOf(build)
    if (late > wanted + callers + expected + waitingCallers.selectiveCount(snapshot.host)) {
      report(`build ${metadata.name} has more late servers than it wants`, toleranceMs)
    }
    if (status.health === 'Unhealthy') return
    const reserved = servers.filter(isReserved).length
    const idle = status.currentPending + status.currentInitializing + status.currentStandingBy - late - reserved
    const missing = Math.min(wanted, spec.max - status.currentActive - late - reserved) - idle
    if (late > 0 && missing > 0 && !this.#crashedTooOften(build, servers)) {
      report(`build ${metadata.name} has late servers and starts no others beside them`, backoffMs)
    }
    if (this.#creating.get(metadata.name)) return
    for (const server of servers)
      if (this.#waitsForCreate(server)) {
        const problem = `${server.metadata.name} was not created although its build has no create in progress`
        report(problem, firstCreateMs, this.#failedMs.get(metadata.name))
      }
  }

  /**
   * True if the build becomes Unhealthy once the crashes of `servers` are counted. It gets no new servers from the moment they
   * are noticed, but the crash of a server is counted only when the call in progress for it has ended, for example a create
   * without a reply, which may take as long as `callTimeoutMs`. Holds only until then: the status is Unhealthy afterwards.
   */
  #crashedTooOften({ metadata, spec }: GameServerBuild, servers: readonly GameServer[]): boolean {
    const { store } = this.deps()
    const build = store.builds.get(keyOf(metadata))?.record
    if (!build) return false
    const uncounted = servers.filter((server) => {
      const record = store.servers.get(keyOf(server.metadata))?.record
      return record?.buildUid === build.uid && record.ending?.crash && !build.countedCrashes.includes(record.uid)
    })
    return buildHealth({ spec, crashes: build.crashes + uncounted.length }) === 'Unhealthy'
  }

  #waitsForCreate({ metadata, status }: GameServer): boolean {
    if (status.state !== 'Pending' || this.#asked.has(metadata.name)) return false
    const { backend, store } = this.deps()
    const record = store.servers.get(keyOf(metadata))?.record
    // An earlier leader has created its instance, which hangs.
    return record !== undefined && backend.instances.get(keyOf(metadata))?.spec.uid !== record.uid
  }
}

function isStarting({ status }: GameServer): boolean {
  return status.state === 'Pending' || status.state === 'Initializing'
}
