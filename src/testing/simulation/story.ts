/** One story: hosts, games, callers and operators in one world, and what must hold at every step of it. */
import type { FleetEvent } from '../../contracts/events.js'
import type { Fleet } from '../../contracts/fleet.js'
import { defaultLimits, type FleetLimits, type FleetOptions } from '../../contracts/options.js'
import type { InstanceSpec } from '../../contracts/backend.js'
import type { Heartbeat, HeartbeatAnswer } from '../../rules/game/heartbeat.js'
import { keyOf, type Ref } from '../../rules/model/resources.js'
import { type Allowances, allowances } from './allowances.js'
import { BackendModel, type ModelInstance } from './backend-model.js'
import { Collector, resizeByHand, workByHand } from './by-hand.js'
import { callers } from './callers.js'
import { Cast } from './cast.js'
import type { Host } from './host.js'
import { Hosts } from './hosts.js'
import { ByHand } from './invariants/by-hand.js'
import { Counts } from './invariants/counts.js'
import { Endings } from './invariants/endings.js'
import { Patience } from './invariants/patience.js'
import { Records } from './invariants/records.js'
import { Restart } from './invariants/restart.js'
import { checkRest } from './invariants/rest.js'
import { breaksRule } from './invariants/rules.js'
import { look, type Seen } from './invariants/seen.js'
import { Sessions } from './invariants/sessions.js'
import { Surplus } from './invariants/surplus.js'
import { Waiting } from './invariants/waiting.js'
import { Lease } from './lease.js'
import { createBuilds, operate } from './operators.js'
import type { Doomed, Scene } from './scene.js'
import { type StoreListener, StoreModel } from './store-model.js'
import { breakStoreWatch, makeTrouble, muteStore, strikeLeader, touchRecord } from './troubles.js'
import { World } from './world.js'

const minuteMs = 60_000
const quietMs = 3 * minuteMs
/** How long after a look the next one comes at the latest. */
const lookMs = 5_000
/** Far more than a fleet of this size does when all goes well, far less than one that runs in circles. */
const mostCallsAMinute = 20_000

const storyLimits = { heartbeatIntervalMs: 2_000, resyncIntervalMs: 30_000 }

export class Story implements Scene {
  readonly world: World
  readonly store: StoreModel
  readonly backend: BackendModel
  readonly lease: Lease
  readonly sessions: Sessions
  readonly waiting: Waiting
  readonly endings: Endings
  readonly byHand: ByHand
  readonly hosts: Hosts
  readonly tally = { allocations: 0, refusals: 0 }
  readonly #allowed: Allowances
  readonly #cast: Cast
  readonly #records: Records
  readonly #counts: Counts
  readonly #patience: Patience
  readonly #surplus: Surplus
  readonly #restart: Restart
  #lookedAt = 0
  /** What the leader said of itself when it was last looked at. */
  #seen: Seen | undefined

  constructor(seed: number, createFleet: (options: FleetOptions) => Promise<Fleet>, limits: Partial<FleetLimits>) {
    const given = { ...storyLimits, ...limits }
    const all: FleetLimits = { ...defaultLimits, ...given }
    const world = new World(seed)
    this.world = world
    const hosts = world.chance(0.5) ? 2 : 1
    const faultiness = world.oneOf([0, 0.002, 0.01, 0.05]) ?? 0
    this.#allowed = allowances(all, faultiness < 0.01)
    this.#cast = new Cast(world, all)
    this.lease = new Lease(world, () => this.#elected())
    this.#restart = new Restart(world, () => this.store)
    this.sessions = new Sessions(world, () => this)
    this.waiting = new Waiting(world, all, () => this.store)
    this.#records = new Records(world)
    this.#surplus = new Surplus(world, all, () => this)
    this.#counts = new Counts(world, () => this.backend)
    this.#patience = new Patience(world, () => this.backend, this.#allowed.stuckMs)
    this.endings = new Endings(world, () => ({ ...this.#parts, limits: all, lastSeen: () => this.#seen }))
    const storeMs = world.oneOf<readonly [number, number]>([
      [0, 5],
      [0, 5],
      [1, 50],
      [20, 200],
    ]) ?? [0, 5]
    const shared = hosts > 1 || world.chance(0.5)
    const { editMs, stuckMs: endMs } = this.#allowed
    this.byHand = new ByHand(world, () => this.#parts, { editMs, endMs })
    // Every other story of those that share a store.
    const sharing = shared ? (seed % 2 === 0 ? 'watched' : 'shared') : 'own'
    this.store = new StoreModel(world, faultiness, storeMs, sharing, this.#listening(sharing === 'watched'))
    const range = { first: 10_000, last: 10_000 + world.between(12, 60) }
    this.backend = new BackendModel(world, faultiness, range, {
      character: (spec) => this.#cast.character(spec),
      longestMatchMs: world.oneOf([20_000, 60_000, 400_000]) ?? 60_000,
      asked: (spec) => this.#asked(spec),
      heartbeat: (instance, heartbeat) => this.#heartbeat(instance, heartbeat),
      told: (instance, sessionID) => this.sessions.told(instance, sessionID),
      ending: (instance) => this.sessions.ending(instance),
    })
    this.hosts = new Hosts(world, () => this, {
      createFleet,
      limits: given,
      heard: (host, event) => this.#heard(host, event),
    })
    for (let i = 0; i < hosts; i++) this.hosts.start()
  }

  /** The build of which no server can run, if this story has one. */
  get doomed(): Doomed | undefined {
    return this.#cast.doomed
  }

  async run(faultyMs: number): Promise<void> {
    const { world } = this
    await this.#pass(1_000)
    this.#begin()
    await this.#pass(faultyMs)
    world.note('--- no more faults from here on ---')
    world.faulty = false
    for (const host of this.hosts.all) host.wake()
    const { settlingMs, resizedMs, leftAloneMs, changeMs } = this.#allowed
    await this.#pass(settlingMs)
    // Nothing else happens to the build from here on that would give it away.
    await this.#pass(resizeByHand(this) === undefined ? leftAloneMs : resizedMs)
    if (await this.#isChanging()) await this.#pass(changeMs)
    await checkRest(this, this.#records, () => this.#pass(quietMs))
    world.throwIfFailed()
  }

  /** How things stand, for whoever reads the history of a breach. */
  lastWords(): void {
    for (const { spec, phase, game } of this.backend.instances.values()) {
      this.world.note(`instance ${spec.ref.name}: ${phase}, ${game?.character ?? 'not begun'}, ${game?.state ?? ''}`)
    }
    for (const { record } of this.store.servers.values()) {
      this.world.note(`record ${record.name}: ${record.state}, ${record.session?.id ?? 'no session'}`)
    }
  }

  /** Nothing of the story may go on after it. */
  end(): void {
    for (const host of this.hosts.all) host.crash()
  }

  async #isChanging(): Promise<boolean> {
    const { leader } = this.lease
    const seen = leader?.fleet && (await look(leader, leader.fleet))
    return seen?.builds.some(({ status }) => status.rollout !== undefined) === true
  }

  async #pass(ms: number): Promise<void> {
    const { world } = this
    const until = world.elapsedMs + ms
    let minute = world.elapsedMs
    let callsBefore = this.#calls
    while (await world.step(until)) {
      if (world.elapsedMs - minute >= minuteMs) {
        minute = world.elapsedMs
        callsBefore = this.#calls
      } else if (this.#calls - callsBefore > mostCallsAMinute) {
        world.breach(`the fleet runs in circles: ${this.#calls - callsBefore} calls within a minute`)
      }
      await this.#check()
      world.throwIfFailed()
    }
    world.elapsedMs = until
  }

  async #check(): Promise<void> {
    const { leader } = this.lease
    const { world, store, backend } = this
    const fair = leader?.answers === true && !store.away && !backend.away && !backend.isDeaf(leader)
    this.#patience.passed(fair)
    const hasRead = this.#seen?.host === leader && this.#lookedAt >= this.lease.leadsSince
    this.byHand.passed(fair, hasRead, leader)
    if (!leader?.fleet || !leader.alive) return
    // What it tells nobody is found out a little later.
    if (leader.stirred || world.elapsedMs >= this.#lookedAt + lookMs) {
      leader.stirred = false
      this.#lookedAt = world.elapsedMs
      this.#seen = await look(leader, leader.fleet)
      if (!this.#seen) return
      this.#restart.check(this.#seen)
      this.#counts.check(this.#seen)
      this.sessions.check(this.#seen)
      this.#patience.check(this.#seen)
      this.#surplus.check(this.#seen)
      this.byHand.check(this.#seen)
    } else if (!this.waiting.changed) return
    if (this.#seen?.host === leader && !leader.suspended) this.waiting.check(this.#seen, this.lease.leadsSince)
  }

  /** Begins everything that goes on by itself. */
  #begin(): void {
    const { world } = this
    const now = (fn: () => Promise<void>) => void fn().catch((error: unknown) => world.fail(error))
    const whileFaulty = (least: number, most: number, fn: () => void) => {
      const again = () => {
        if (!world.faulty) return
        fn()
        world.after(world.between(least, most), again)
      }
      world.after(world.between(least, most), again)
    }
    const establish = async () => {
      if (!(await createBuilds(this))) world.after(world.between(500, 3_000), () => now(establish))
    }
    now(establish)
    const rush = world.oneOf([2_000, 5_000, 20_000]) ?? 5_000
    // Most of the time a fleet has nothing to do: what is to hit it in the middle of something has to be aimed.
    const aimed = world.oneOf([0, 0, 0.01, 0.05]) ?? 0
    const touching = world.oneOf([0, 0, 0.1, 0.3]) ?? 0
    const muting = world.oneOf([0, 0, 0.1, 0.4]) ?? 0
    const soon = (fn: () => void) => world.after(world.between(0, 30), fn)
    whileFaulty(rush / 10, rush * 2, () => {
      now(() => callers(this, world.chance(0.15) ? world.between(2, 5) : 1))
      if (world.chance(aimed)) soon(() => strikeLeader(this))
      if (world.chance(touching)) soon(() => touchRecord(this))
      if (world.chance(muting)) soon(() => muteStore(this))
    })
    whileFaulty(5_000, 60_000, () => now(() => operate(this)))
    if (world.chance(0.75)) whileFaulty(10_000, 200_000, () => makeTrouble(this))
    if (!this.store.watched) return
    whileFaulty(2_000, 60_000, () => workByHand(this))
    if (world.chance(0.7)) whileFaulty(10_000, 200_000, () => breakStoreWatch(this))
  }

  get #calls(): number {
    return this.store.calls + this.backend.calls
  }

  get #parts() {
    const { backend, store, lease, sessions } = this
    return { backend, store, lease, sessions }
  }

  /** What hears of every change of the store. A cluster, which some stories are in, clears away what is left behind. */
  #listening(watched: boolean): StoreListener {
    const records = this.#records
    const collector = watched && this.world.chance(0.5) ? new Collector(this.world, () => this) : undefined
    return {
      buildWritten: (before, after) => {
        const { name, crashes, spec } = after
        this.world.fingerprint.add(name, crashes, spec.buildID, spec.standingBy, spec.max)
        records.buildWritten(before, after)
      },
      buildRemoved(before) {
        records.buildRemoved(before)
        collector?.buildRemoved(before)
      },
      serverWritten: (before, after, late) => {
        const { name, state, health, session, ending } = after
        this.world.fingerprint.add(name, state, health, session?.id, ending?.reason)
        records.serverWritten(before, after, late)
        collector?.serverWritten(before, after)
      },
      serverRemoved(before, byHand) {
        records.serverRemoved(before, byHand)
        collector?.serverRemoved(before)
      },
    }
  }

  #asked(spec: InstanceSpec): string | undefined {
    const { ref, uid } = spec
    this.endings.asked(spec)
    if (!this.#records.known.has(uid)) this.world.breach(`${ref.name} was to be started before it had a record`)
    if (breaksRule(spec)) this.world.breach(`${ref.name} was to be started with a spec that breaks a rule`)
    return this.#cast.refusal(spec)
  }

  #heartbeat(instance: ModelInstance, heartbeat: Heartbeat): HeartbeatAnswer | undefined {
    const { world } = this
    if (world.fault('heartbeat: lost', 0.005)) return undefined
    const host = this.hosts.any()
    const answer = host?.fleet?.heartbeat(instance.spec.sdk.sessionHostId, heartbeat)
    if (host && host === this.lease.leader) instance.heard = { by: host, at: world.elapsedMs }
    if (answer?.operation === 'Terminate') {
      this.endings.told(instance)
      this.sessions.ending(instance)
    }
    return answer
  }

  #elected(): void {
    this.doomed?.creations.elected()
    this.#restart.elected()
    this.#surplus.elected()
    this.waiting.elected()
  }

  #heard(host: Host, event: FleetEvent): void {
    const { seq, build, server } = { build: undefined, server: undefined, ...event }
    this.world.fingerprint.add(host.name, seq, build?.name, server?.name)
    if (event.type === 'ServerCreated') {
      this.#counts.serverCreated(event.build.name)
      if (host === this.lease.leader) this.#surplus.created(event.build.name, event.server.name)
    }
    if (event.type !== 'ServerEnding') return
    // Another host has decided so, and this one only learns of it.
    if (this.store.servers.get(keyOf(event.server))?.record.state === 'Terminating') return
    if (host === this.lease.leader) this.#surplus.ended(event, this.#ran(event.server))
    this.endings.heard(host, event)
  }

  #ran(server: Ref): boolean {
    const state = this.store.servers.get(keyOf(server))?.record.state
    return state !== undefined && state !== 'Pending'
  }
}
