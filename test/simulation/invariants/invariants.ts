/** All invariants of a run. The run passes every occurrence to this object and calls `check` after every step. */
import type { InstanceSpec } from '../../../src/contracts/backend.js'
import type { FleetEvent } from '../../../src/contracts/events.js'
import type { FleetLimits } from '../../../src/contracts/options.js'
import type { HeartbeatAnswer } from '../../../src/rules/game/heartbeat.js'
import { keyOf, type Ref } from '../../../src/rules/model/resources.js'
import { severalBuildName } from '../context.js'
import type { BackendModel, ModelInstance } from '../models/backend-model.js'
import type { StoreModel } from '../models/store-model.js'
import type { WebhookModel } from '../models/webhook-model.js'
import type { TimingAllowances } from '../timing-allowances.js'
import type { Host } from '../world/host.js'
import type { Lease } from '../world/lease.js'
import type { World } from '../world/world.js'
import { BudgetInvariants } from './budget.js'
import { Claims } from './allocations/claims.js'
import { Confirmations } from './allocations/confirmations.js'
import { Counts } from './counts.js'
import { ExternalEdits } from './external-edits.js'
import { GracePeriods } from './terminations/grace-periods.js'
import { LateStarts } from './late-starts.js'
import { Liveness } from './liveness.js'
import { Maintenance } from './maintenance.js'
import { ProbedServers } from './probed-servers.js'
import { Records } from './records.js'
import { ServerDataChanges } from './server-data.js'
import { Reservations } from './allocations/reservations.js'
import { ReservedSeats } from './allocations/reserved-seats.js'
import { Selections } from './allocations/selections.js'
import { RoomsInvariants } from './allocations/rooms.js'
import { SessionEnds } from './allocations/session-ends.js'
import { Sessions } from './allocations/sessions.js'
import { type FleetSnapshot, takeSnapshot } from './snapshot.js'
import { isInvalidSpec } from './spec-checks.js'
import { ScalingInvariants } from './scaling.js'
import { StateRecovery } from './state-recovery.js'
import { Surplus } from './surplus.js'
import { Terminations } from './terminations/terminations.js'
import { UnheardServers } from './allocations/unheard-servers.js'
import { WaitingCallers } from './allocations/waiting-callers.js'

/** Maximum time between two snapshots. */
const snapshotIntervalMs = 5_000

export interface InvariantsDependencies {
  readonly backend: BackendModel
  readonly store: StoreModel
  readonly lease: Lease
  readonly webhooks: WebhookModel
}

export interface InvariantsOptions {
  readonly limits: FleetLimits
  readonly allowances: Pick<TimingAllowances, 'livenessMs' | 'editMs'>
}

export class Invariants {
  readonly sessions: Sessions
  readonly sessionEnds: SessionEnds
  readonly rooms: RoomsInvariants
  readonly selections: Selections
  readonly claims: Claims
  readonly seats: ReservedSeats
  readonly reservations: Reservations
  readonly confirmations: Confirmations
  readonly waitingCallers: WaitingCallers
  readonly unheardServers: UnheardServers
  readonly terminations: Terminations
  readonly externalEdits: ExternalEdits
  readonly records: Records
  readonly maintenance: Maintenance
  readonly serverData: ServerDataChanges
  readonly gracePeriods: GracePeriods
  readonly probedServers: ProbedServers
  readonly #counts: Counts
  readonly #liveness: Liveness
  readonly #lateStarts: LateStarts
  readonly #surplus: Surplus
  readonly #scaling: ScalingInvariants
  readonly #budget: BudgetInvariants
  readonly #stateRecovery: StateRecovery
  #snapshotAt = 0
  /** The last snapshot taken from a leader. */
  #snapshot: FleetSnapshot | undefined

  constructor(
    readonly world: World,
    readonly deps: () => InvariantsDependencies,
    { limits, allowances }: InvariantsOptions,
  ) {
    const { livenessMs, editMs } = allowances
    const store = () => deps().store
    const backend = () => deps().backend
    this.sessions = new Sessions(world, deps)
    this.sessionEnds = new SessionEnds(world, () => ({ store: store(), sessions: this.sessions }))
    this.rooms = new RoomsInvariants(world, deps, this.sessions)
    this.selections = new Selections(world, store)
    this.claims = new Claims(world, deps)
    this.seats = new ReservedSeats(world, deps)
    this.reservations = new Reservations(world, deps)
    this.confirmations = new Confirmations(world, () => ({
      backend: backend(),
      store: store(),
      sessions: this.sessions,
    }))
    this.unheardServers = new UnheardServers(world, deps, this.selections)
    this.waitingCallers = new WaitingCallers(world, limits, store, this.unheardServers)
    this.externalEdits = new ExternalEdits(world, deps, { editMs, terminateMs: livenessMs })
    this.records = new Records(world, deps)
    this.maintenance = new Maintenance(world, deps)
    this.serverData = new ServerDataChanges(world, deps)
    this.gracePeriods = new GracePeriods(world, deps)
    this.probedServers = new ProbedServers(world, deps, {
      heard: (host, { spec }) => this.unheardServers.heartbeatReceived(host, spec.uid),
      players: (host, instance, players) => this.#playersAnswered(host, instance, players),
    })
    this.#counts = new Counts(world, backend)
    this.#lateStarts = new LateStarts(world, () => ({
      ...{ backend: backend(), store: store(), waitingCallers: this.waitingCallers },
    }))
    this.#liveness = new Liveness(world, backend, livenessMs)
    this.#surplus = new Surplus(world, limits, () => ({ store: store(), waitingCallers: this.waitingCallers }))
    this.#scaling = new ScalingInvariants(world, () => deps().webhooks)
    this.#budget = new BudgetInvariants(world)
    this.#stateRecovery = new StateRecovery(world, store)
    this.terminations = new Terminations(world, () => ({
      backend: backend(),
      store: store(),
      lease: deps().lease,
      records: this.records,
      sessions: this.sessions,
      claims: this.claims,
      probedServers: this.probedServers,
      unheardServers: this.unheardServers,
      limits,
      lastSnapshot: () => this.#snapshot,
    }))
  }

  leaderElected(): void {
    this.#stateRecovery.leaderElected()
    this.#surplus.leaderElected()
    this.#lateStarts.leaderElected()
    this.waitingCallers.leaderElected()
  }

  instanceCreated(spec: InstanceSpec): void {
    const { ref, uid } = spec
    this.terminations.created(spec)
    if (!this.records.serverUids.has(uid)) this.world.violate(`${ref.name} was created before its record was written`)
    if (isInvalidSpec(spec)) this.world.violate(`${ref.name} was created with an invalid spec`)
  }

  /** Called when a host answers a heartbeat. */
  heartbeatAnswered(host: Host, instance: ModelInstance, answer: HeartbeatAnswer): void {
    const { lease } = this.deps()
    const isLoaded = this.#snapshot?.host === host && this.#snapshotAt >= lease.electedAt
    if (host === lease.leader && isLoaded && !answer.isElsewhere) this.maintenance.answered(instance, answer)
  }

  /** Called when a game without an SDK has answered who plays. */
  #playersAnswered(host: Host, instance: ModelInstance, players: readonly string[]): void {
    const heartbeat = { state: 'Active' as const, players }
    if (players.length > 0) this.claims.playersReported(host, instance, heartbeat)
    this.seats.playersReported(host, instance, heartbeat)
  }

  /** Called when a caller gets a server. */
  returnedToCaller(sessionID: string, address: string): void {
    const instance = this.deps().backend.instanceAt(address)
    if (instance) this.sessionEnds.returnedToCaller(sessionID, instance)
    const status = instance && this.#snapshot?.servers.get(keyOf(instance.spec.ref))?.status
    // A session exists until its server is gone, if the server began to terminate before the host knew that its game has ended it.
    const isLeaving = status?.state === 'Terminating' && status.sessionID === sessionID
    if (isLeaving && this.sessions.hasEnded(sessionID, address)) return
    const sessions = instance?.spec.build.name === severalBuildName ? this.rooms : this.sessions
    sessions.returnedToCaller(sessionID, address)
  }

  gameReceivedSession(instance: ModelInstance, sessionID: string): void {
    this.sessions.receivedByGame(instance, sessionID)
    this.confirmations.receivedByGame(instance, sessionID)
  }

  /** Called when a game ends its session and goes on. */
  gameEndedSession(instance: ModelInstance, sessionID: string): void {
    this.world.note(`${instance.spec.ref.name} ends ${sessionID}`)
    this.sessions.endedByGame(instance, sessionID)
    this.records.sessionEnded(instance.spec.uid, sessionID)
    this.seats.sessionEnded(instance.spec.uid)
  }

  /** Called when a host calls create. Returns a function to call when it has its answer. */
  createCalled(host: Host, { build, ref }: InstanceSpec): () => void {
    return host === this.deps().lease.leader ? this.#lateStarts.createCalled(build.name, ref.name) : () => {}
  }

  /** Called when a heartbeat reply tells a game to terminate. */
  gameTerminated(instance: ModelInstance): void {
    this.gracePeriods.terminateReceived(instance)
    this.terminations.gameTerminated(instance)
    this.sessions.terminating(instance)
    this.rooms.terminating(instance)
  }

  /** Called when a running instance gets its termination signal from this host. */
  instanceSignalled(instance: ModelInstance, host: Host): void {
    this.gracePeriods.signalled(instance, host)
    this.sessions.terminating(instance)
    this.rooms.terminating(instance)
  }

  eventEmitted(host: Host, event: FleetEvent): void {
    const { store, lease } = this.deps()
    this.reservations.eventEmitted(host, event)
    this.confirmations.eventEmitted(event)
    if (event.type === 'ServerCreated') {
      this.#counts.serverCreated(event.build.name)
      if (host === lease.leader) this.#surplus.created(event.build.name, event.server.name)
      this.#budget.created(event.server.name)
      this.terminations.recorded(host, event)
    }
    if (event.type === 'ServerLate' && host === lease.leader) this.#lateStarts.serverLate(event)
    if (event.type === 'ReconcileFailed' && host === lease.leader) this.#lateStarts.reconcileFailed(event)
    if (event.type !== 'ServerEnding') return
    // Another host made the decision, and this host has only learned of it.
    if (store.servers.get(keyOf(event.server))?.record.state === 'Terminating') return
    if (host === lease.leader) this.#surplus.terminating(event, this.#wasStarted(event.server))
    this.terminations.decided(host, event)
  }

  /** Checks the leader. Takes a new snapshot if the leader has news, and otherwise every few seconds. */
  async check(): Promise<void> {
    const { world } = this
    const { leader, electedAt } = this.deps().lease
    this.#countTime(leader)
    if (!leader?.fleet || !leader.alive) return
    if (leader.hasNews || world.elapsedMs >= this.#snapshotAt + snapshotIntervalMs) {
      leader.hasNews = false
      this.#snapshotAt = world.elapsedMs
      this.#snapshot = await takeSnapshot(leader, leader.fleet)
      if (!this.#snapshot) return
      this.#checkSnapshot(this.#snapshot)
      if (!leader.suspended) this.unheardServers.check(this.#snapshot)
    } else if (!this.waitingCallers.changed) return
    if (this.#snapshot?.host === leader && !leader.suspended) this.waitingCallers.check(this.#snapshot, electedAt)
  }

  #countTime(leader: Host | undefined): void {
    const { store, backend, lease } = this.deps()
    const canAct = leader?.isResponsive === true && !store.unavailable && !backend.unavailable
    const fair = canAct && !backend.isWatchInterrupted(leader)
    this.#liveness.timePassed(fair)
    this.#lateStarts.timePassed(fair)
    const isLoaded = this.#snapshot?.host === leader && this.#snapshotAt >= lease.electedAt
    this.externalEdits.timePassed(fair, isLoaded, leader)
  }

  #checkSnapshot(snapshot: FleetSnapshot): void {
    this.#stateRecovery.check(snapshot)
    this.#counts.check(snapshot)
    this.sessions.check(snapshot)
    this.rooms.check(snapshot)
    this.#liveness.check(snapshot)
    this.#lateStarts.check(snapshot)
    this.#surplus.check(snapshot)
    this.#scaling.check(snapshot)
    this.#budget.check(snapshot)
    this.externalEdits.check(snapshot)
    this.serverData.check(snapshot)
    this.claims.check(snapshot)
    this.reservations.check(snapshot)
  }

  #wasStarted(server: Ref): boolean {
    const state = this.deps().store.servers.get(keyOf(server))?.record.state
    return state !== undefined && state !== 'Pending'
  }
}
