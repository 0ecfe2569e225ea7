/**
 * One simulation run: hosts, games, callers and operators in one world. In the first phase anything can fail. Then the faults
 * stop, and the fleet has to reach quiescence.
 */
import type { FleetEvent } from '../../src/contracts/events.js'
import type { Fleet } from '../../src/contracts/fleet.js'
import { defaultLimits, type FleetLimits } from '../../src/contracts/options.js'
import type { Heartbeat, HeartbeatAnswer } from '../../src/rules/game/heartbeat.js'
import { keyOf } from '../../src/rules/model/resources.js'
import { scaleBuildExternally } from './actors/external-edits.js'
import { GarbageCollector } from './actors/garbage-collector.js'
import { calmPolicies } from './actors/operators.js'
import { retryAfterFailover, startWorkload } from './actors/workload.js'
import { type SimulationContext, severalBuildName, type UnrunnableBuild } from './context.js'
import { Invariants } from './invariants/invariants.js'
import { checkQuiescence } from './invariants/quiescence.js'
import { takeSnapshot } from './invariants/snapshot.js'
import { BackendModel, type ModelInstance } from './models/backend-model.js'
import { GameBehaviors } from './models/game-behaviors.js'
import { ProberModel } from './models/prober-model.js'
import { Rooms } from './models/rooms.js'
import { StartHangs } from './models/start-hangs.js'
import type { TestedJournal } from './models/tested-journal.js'
import { type StoreListener, StoreModel } from './models/store-model.js'
import { WebhookModel } from './models/webhook-model.js'
import { type TimingAllowances, timingAllowances } from './timing-allowances.js'
import { HostPool } from './world/host-pool.js'
import type { CreateFleet, Host } from './world/host.js'
import { Lease } from './world/lease.js'
import { World } from './world/world.js'

const minuteMs = 60_000
const quiescenceMs = 3 * minuteMs
/** Far more calls than a fleet of this size needs, and far fewer than a fleet makes that retries without a pause. */
const maxCallsPerMinute = 20_000

const simulationLimits = {
  heartbeatIntervalMs: 2_000,
  resyncIntervalMs: 30_000,
  lateStartMs: 20_000,
  // As many as the creates of a build whose creates hang.
  maxConcurrentCreates: 4,
}

export class SimulationRun implements SimulationContext {
  readonly world: World
  readonly store: StoreModel
  readonly backend: BackendModel
  readonly lease: Lease
  readonly webhooks: WebhookModel
  readonly prober: ProberModel
  readonly hosts: HostPool
  readonly invariants: Invariants
  readonly hasRooms: boolean
  readonly totals = { allocations: 0, refusals: 0 }
  readonly #allowances: TimingAllowances
  readonly #behaviors: GameBehaviors

  constructor(seed: number, createFleet: CreateFleet, limits: Partial<FleetLimits>, journal?: TestedJournal) {
    const fleetLimits = { ...simulationLimits, ...limits }
    const allLimits: FleetLimits = { ...defaultLimits, ...fleetLimits }
    const world = new World(seed)
    this.hasRooms = seed % 7 === 4
    this.world = world
    this.webhooks = new WebhookModel(world)
    this.prober = new ProberModel(world, () => ({ backend: this.backend, observer: this.invariants.probedServers }))
    const hostCount = world.chance(0.5) ? 2 : 1
    const faultRate = world.oneOf([0, 0.002, 0.01, 0.05]) ?? 0
    const ports = { first: 10_000, last: 10_000 + world.between(12, 60) }
    const startHangs = new StartHangs(world, ports)
    this.#allowances = timingAllowances(allLimits, faultRate < 0.01, startHangs.any)
    this.#behaviors = new GameBehaviors(world, allLimits)
    this.lease = new Lease(world, () => this.#leaderElected())
    this.invariants = new Invariants(world, () => this, { limits: allLimits, allowances: this.#allowances })
    const latencyMs = world.oneOf<readonly [number, number]>([
      [0, 5],
      [0, 5],
      [1, 50],
      [20, 200],
    ]) ?? [0, 5]
    const isShared = hostCount > 1 || world.chance(0.5) || journal !== undefined
    // If the store is shared, the hosts watch it in runs with an even seed.
    const sharing = isShared ? (seed % 2 === 0 ? 'watched' : 'shared') : 'private'
    this.store = new StoreModel(
      world,
      faultRate,
      latencyMs,
      sharing,
      this.#storeListener(sharing === 'watched'),
      journal,
    )
    this.backend = new BackendModel(world, faultRate, ports, {
      startHangs,
      behaviorOf: (spec) => this.#behaviors.behaviorOf(spec),
      longestMatchMs: world.oneOf([20_000, 60_000, 400_000]) ?? 60_000,
      onCreate: (host, spec) => {
        this.invariants.instanceCreated(spec)
        const answered = this.invariants.createCalled(host, spec)
        return { refusal: this.#behaviors.refusal(spec), hangs: this.#behaviors.createHangs(spec.build.name), answered }
      },
      heartbeat: (instance, heartbeat, later) => this.#heartbeat(instance, heartbeat, later),
      onSession: (instance, sessionID) => this.invariants.gameReceivedSession(instance, sessionID),
      onSessionEnd: (instance, sessionID) => this.invariants.gameEndedSession(instance, sessionID),
      roomsOf: (instance) => this.#roomsOf(instance),
      onSignal: (instance, host) => this.invariants.instanceSignalled(instance, host),
      onKill: (instance) => this.invariants.gracePeriods.killed(instance),
      onTell: (host, ref) => this.invariants.probedServers.telling(host, ref),
    })
    this.hosts = new HostPool(world, () => this, {
      createFleet,
      limits: fleetLimits,
      onEvent: (host, event) => this.#eventEmitted(host, event),
    })
    for (let i = 0; i < hostCount; i++) this.hosts.start()
  }

  get unrunnable(): UnrunnableBuild | undefined {
    return this.#behaviors.unrunnable
  }

  async run(faultyMs: number): Promise<void> {
    const { world } = this
    await this.#advance(1_000)
    startWorkload(this)
    await this.#advance(faultyMs)
    world.note('--- no more faults from here on ---')
    world.faultsEnabled = false
    for (const host of this.hosts.all) host.wake()
    calmPolicies(this)
    const { settlingMs, resizedMs, notResizedMs, rolloutMs } = this.#allowances
    await this.#advance(settlingMs)
    // Nothing else changes from here on, so no other activity can make the fleet notice this edit.
    await this.#advance(scaleBuildExternally(this) === undefined ? notResizedMs : resizedMs)
    if (await this.#hasRollout()) await this.#advance(rolloutMs)
    await checkQuiescence(this, () => this.#advance(quiescenceMs))
    world.throwIfFailed()
  }

  /** Adds the final state to the history. Called after a failed run. */
  noteFinalState(): void {
    for (const { spec, phase, game } of this.backend.instances.values()) {
      this.world.note(`instance ${spec.ref.name}: ${phase}, ${game?.behavior ?? 'not started'}, ${game?.state ?? ''}`)
    }
    for (const { record } of this.store.servers.values()) {
      this.world.note(`record ${record.name}: ${record.state}, ${record.sessions[0]?.id ?? 'no session'}`)
    }
  }

  /** Stops all hosts. */
  stop(): void {
    for (const host of this.hosts.all) host.crash()
  }

  async #hasRollout(): Promise<boolean> {
    const { leader } = this.lease
    const snapshot = leader?.fleet && (await takeSnapshot(leader, leader.fleet))
    return snapshot?.builds.some(({ status }) => status.rollout !== undefined) === true
  }

  /** Advances the run by `ms` and checks the invariants after each step. */
  async #advance(ms: number): Promise<void> {
    const { world } = this
    const until = world.elapsedMs + ms
    let minute = world.elapsedMs
    let callsBefore = this.#calls
    while (await world.step(until)) {
      if (world.elapsedMs - minute >= minuteMs) {
        minute = world.elapsedMs
        callsBefore = this.#calls
      } else if (this.#calls - callsBefore > maxCallsPerMinute) {
        world.violate(`too many calls: the fleet made ${this.#calls - callsBefore} within a minute`)
      }
      await this.invariants.check()
      world.throwIfFailed()
    }
    world.elapsedMs = until
  }

  get #calls(): number {
    return this.store.calls + this.backend.calls
  }

  /** Reports every store change to the invariants. Half of the watched stores have a garbage collector, like a cluster's. */
  #storeListener(watched: boolean): StoreListener {
    const { world } = this
    const { claims, confirmations, gracePeriods, maintenance, records, seats, selections, serverData, terminations } =
      this.invariants
    const collector = watched && world.chance(0.5) ? new GarbageCollector(world, () => this) : undefined
    return {
      buildWritten: (before, after) => {
        const { name, crashes, spec } = after
        world.fingerprint.add(name, crashes, spec.buildID, spec.standingBy, spec.max)
        records.buildWritten(before, after)
        gracePeriods.buildWritten(after)
        terminations.buildWritten(after)
        selections.buildWritten(after)
      },
      buildRemoved(before) {
        records.buildRemoved(before)
        collector?.buildRemoved(before)
      },
      detailWritten: ({ namespace, name, players }) => claims.detailWritten(keyOf({ namespace, name }), players),
      detailRemoved: (before) => claims.detailRemoved(keyOf(before)),
      serverWritten: (before, after, late) => {
        const {
          name,
          state,
          health,
          sessions: [session],
          ending,
        } = after
        world.fingerprint.add(name, state, health, session?.id, ending?.reason)
        records.serverWritten(before, after, late)
        selections.serverWritten(before, after)
        claims.serverWritten(before, after)
        this.invariants.seats.serverWritten(before, after)
        serverData.serverWritten(before, after)
        this.invariants.probedServers.serverWritten(before, after)
        this.invariants.rooms.serverWritten(before, after)
        collector?.serverWritten(before, after)
      },
      serverRemoved(before, external) {
        records.serverRemoved(before, external)
        serverData.removed(before)
        seats.serverRemoved(before)
        if (external) confirmations.recordDeleted(before)
        else maintenance.serverRemoved(before)
        collector?.serverRemoved(before)
      },
    }
  }

  #heartbeat(
    instance: ModelInstance,
    heartbeat: Heartbeat,
    later?: (answer: HeartbeatAnswer) => void,
  ): HeartbeatAnswer | undefined {
    const { world } = this
    if (world.fault('heartbeat: lost', 0.005)) return undefined
    const host = this.hosts.pickResponsive()
    const answer = host?.fleet?.heartbeat(instance.spec.sdk.sessionHostId, heartbeat)
    if (host && answer && !answer.isElsewhere) {
      this.invariants.unheardServers.heartbeatReceived(host, instance.spec.uid)
      if (host === this.lease.leader) instance.lastHeartbeat = { by: host, at: world.elapsedMs }
    }
    if (host && answer) this.invariants.heartbeatAnswered(host, instance, answer)
    if (host && answer && heartbeat.players.length > 0)
      this.invariants.claims.playersReported(host, instance, heartbeat)
    if (host && answer && !answer.isElsewhere) this.invariants.seats.playersReported(host, instance, heartbeat)
    if (answer?.operation === 'Terminate') this.invariants.gameTerminated(instance)
    const isWaiting = heartbeat.state === 'StandingBy' && answer?.operation === 'Continue' && !answer.sessionConfig
    if (later && isWaiting && host?.fleet) this.#hold(host.fleet, instance, later)
    return answer
  }

  /** Lets the fleet hold its answer, as the agent does for the Node SDK. */
  #hold(fleet: Fleet, instance: ModelInstance, later: (answer: HeartbeatAnswer) => void): void {
    const { world } = this
    fleet.parkHeartbeat(instance.spec.sdk.sessionHostId, {
      waitMs: simulationLimits.heartbeatIntervalMs,
      answer: (answer) => {
        if (answer.operation === 'Terminate') this.invariants.gameTerminated(instance)
        else if (world.fault('heartbeat: held answer lost', 0.05)) return
        world.after(world.between(0, 5), () => later(answer))
      },
    })
  }

  #roomsOf(instance: ModelInstance): Rooms | undefined {
    if (instance.spec.build.name !== severalBuildName) return undefined
    const { rooms } = this.invariants
    return new Rooms(this.world, {
      longestMs: 60_000,
      began: (session) => rooms.began(instance, session),
      ended: (session) => rooms.ended(instance, session),
    })
  }

  #leaderElected(): void {
    this.unrunnable?.createRate.leaderElected()
    this.invariants.leaderElected()
    retryAfterFailover(this)
  }

  #eventEmitted(host: Host, event: FleetEvent): void {
    const { seq, build, server } = { build: undefined, server: undefined, ...event }
    this.world.fingerprint.add(host.name, seq, build?.name, server?.name)
    this.invariants.eventEmitted(host, event)
  }
}
