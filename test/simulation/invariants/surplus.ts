/**
 * Invariant: scaling down terminates no more than the surplus. The build keeps as many servers as it needs for `standingBy`,
 * for waiting callers and for callers that are expected to retry. A rolling update may take one batch of these servers, and
 * it stops if the new servers crash or do not become ready.
 */
import { standingByOf } from '../../../src/rules/model/build-status.js'
import type { EventOf } from '../../../src/contracts/events.js'
import type { FleetLimits } from '../../../src/contracts/options.js'
import { keyOf, type Ref } from '../../../src/rules/model/resources.js'
import type { GameServer, GameServerBuild } from '../../../src/rules/model/wire.js'
import { rolloutBatch, templateHash } from '../../../src/rules/planning/rollout.js'
import { severalBuildName } from '../context.js'
import { createRefusals } from '../models/backend-model.js'
import type { StoreModel } from '../models/store-model.js'
import type { World } from '../world/world.js'
import { CrashedTemplates } from './crashed-templates.js'
import { buildNameOf, hasDuplicateBuildID, isReserved, reservedIn, type FleetSnapshot } from './snapshot.js'
import type { WaitingCallers } from './allocations/waiting-callers.js'

/** What happened to a build since the last check. */
interface Activity {
  scaledDown: boolean
  /** How many servers that had run were replaced. */
  replaced: number
  terminating: number
  readonly created: Set<string>
}

export class Surplus {
  /** Activity by build name. */
  #activity = new Map<string, Activity>()
  /**
   * How many servers that had never run were replaced during the current rolling update, by build name. They gave up nothing, and
   * nor do the servers in their place run before there is a port for them.
   */
  readonly #unstarted = new Map<string, { readonly hash: string; count: number }>()
  #isFirstCheck = true
  readonly #crashedTemplates: CrashedTemplates

  constructor(
    readonly world: World,
    limits: Pick<FleetLimits, 'backoffResetMs'>,
    readonly deps: () => { readonly store: StoreModel; readonly waitingCallers: WaitingCallers },
  ) {
    this.#crashedTemplates = new CrashedTemplates(world, limits, () => this.deps().store)
  }

  /** Called when the fleet decides to terminate a server. `ran`: whether the server's process was ever started. */
  terminating({ build, crash, reason, server }: EventOf<'ServerEnding'>, ran: boolean): void {
    const activity = this.#of(build.name)
    activity.terminating++
    if (reason === 'ScaledDown') activity.scaledDown = true
    if (reason === 'Replaced' && ran) activity.replaced++
    if (reason === 'Replaced' && !ran) this.#countUnstarted(build)
    if (crash) this.#crashedTemplates.serverCrashed(build, server)
  }

  /** What a new leader does before its first snapshot is not checked. */
  leaderElected(): void {
    this.#isFirstCheck = true
    this.#crashedTemplates.leaderElected()
  }

  created(build: string, server: string): void {
    this.#of(build).created.add(server)
  }

  check(snapshot: FleetSnapshot): void {
    this.#crashedTemplates.update(snapshot)
    for (const build of snapshot.builds) {
      const { name } = build.metadata
      const activity = this.#activity.get(name)
      // The budget may give what a build needs to another.
      if (this.world.budget !== undefined) continue
      // If two builds share a buildID, it is unclear for which of them a caller waits.
      if (hasDuplicateBuildID(build, snapshot.builds)) continue
      if (!this.#isFirstCheck && activity && (activity.scaledDown || activity.replaced > 0))
        this.#checkBuild(build, activity, snapshot)
    }
    this.#activity = new Map()
    this.#isFirstCheck = false
  }

  #of(build: string): Activity {
    const existing = this.#activity.get(build)
    if (existing) return existing
    const activity = { scaledDown: false, replaced: 0, terminating: 0, created: new Set<string>() }
    this.#activity.set(build, activity)
    return activity
  }

  #countUnstarted(build: Ref): void {
    const spec = this.deps().store.builds.get(keyOf(build))?.record.spec
    if (!spec) return
    const hash = templateHash(spec)
    const counted = this.#unstarted.get(build.name)
    if (counted?.hash === hash) counted.count++
    else this.#unstarted.set(build.name, { hash, count: 1 })
  }

  #checkBuild(
    { spec, status, metadata }: GameServerBuild,
    { replaced, terminating, created }: Activity,
    snapshot: FleetSnapshot,
  ): void {
    const { name } = metadata
    const { store, waitingCallers } = this.deps()
    // One whose allocation began in this step may have been idle when the surplus was computed.
    const begun = store.allocations.begunNow(snapshot.host)
    const reserved = new Set(store.allocations.reserved(snapshot.host).filter((key) => !begun.has(key)))
    const idle: GameServer[] = []
    const reservedServers: GameServer[] = []
    let released = 0
    let lostAllocations = 0
    for (const server of snapshot.servers.values()) {
      if (buildNameOf(server) !== name) continue
      const key = keyOf(server.metadata)
      if (server.status.state === 'Terminating' && store.allocations.isBusy(snapshot.host, key)) lostAllocations++
      if (!isIdle(server) || (isReserved(server) && !reserved.has(key))) continue
      if (store.allocations.wasJustReleased(key)) released++
      if (reserved.has(key)) reservedServers.push(server)
      // With scaling policies, an allocation that comes to nothing within the step may have raised what was wanted.
      else if (spec.scaling || !created.has(server.metadata.name)) idle.push(server)
    }
    // For each server released in this step, a server that is reserved now may have been idle when the surplus was computed. And a
    // server that has ended all its sessions may seem to be reserved, while the write of its first one is in flight.
    idle.push(...reservedServers.splice(0, name === severalBuildName ? reservedServers.length : released))
    const active = status.currentActive + reservedServers.length + reservedIn(snapshot, name).length
    // A caller whose server is terminated during the allocation rejoins the queue only after the record is written.
    const callers =
      waitingCallers.waitingCount(snapshot.host, spec.buildID) +
      waitingCallers.expectedCount(snapshot.host, spec.buildID)
    const waiting = Math.max(0, callers - lostAllocations)
    const wanted = Math.min(standingByOf({ spec, status }) + waiting, spec.max - active)
    const batch = rolloutBatch(wanted)
    const kept = wanted - (replaced > 0 ? batch : 0)
    if (idle.length < kept) {
      this.world.violate(
        `more than the surplus was terminated: build ${name} needs ${wanted} idle servers but had ${idle.length}`,
      )
    }
    // After `max` was lowered, servers are terminated regardless of the rolling update.
    if (
      replaced === 0 ||
      spec.scaling?.maxIdleAgeSeconds !== undefined ||
      idle.length + active + terminating > spec.max
    )
      return
    const hash = templateHash(spec)
    const unstarted = this.#unstarted.get(name)
    let good = 0
    let onTrialBehindWrite = 0
    let begunOnTrial = 0
    let notStarted = 0
    for (const server of idle) {
      const key = keyOf(server.metadata)
      // A server whose record is not written yet may run either template, so it counts as good.
      if (store.servers.get(key)?.record.templateHash !== hash) good++
      else if (server.status.state === 'Pending') notStarted++
      else if (server.status.state !== 'StandingBy') continue
      else if (!this.#crashedTemplates.isOnTrial(server, hash)) good++
      else if (begun.has(key)) begunOnTrial++
      else if (store.allocations.isBusy(snapshot.host, key)) onTrialBehindWrite++
    }
    // A server is allocated to a waiting caller even on trial. While an earlier write of its record is in flight, the
    // allocation cannot be seen yet.
    good += Math.min(onTrialBehindWrite, waiting)
    if (unstarted?.hash === hash) good += Math.min(unstarted.count, notStarted)
    // Where ports are short, the build has had fewer servers already, and each new one needs the port of an old one.
    const lacksPort = idle.some(({ status: { message } }) => message === createRefusals.noFreePort)
    // One on trial whose allocation began in this step may have been Active already when the update was planned.
    const wantedThen = Math.min(wanted, spec.max - active - begunOnTrial)
    if (good < wantedThen - rolloutBatch(wantedThen) && (!lacksPort || replaced > batch)) {
      this.world.violate(`a rolling update went too far: build ${name} needs ${wanted} servers but had ${good} left`)
    }
  }
}

function isIdle({ status }: GameServer): boolean {
  return status.state === 'Pending' || status.state === 'Initializing' || status.state === 'StandingBy'
}
