/** One story: hosts, games, callers and operators in one world, and what must hold at every step of it. */
import { FleetError, messageOf } from '../../errors.js'
import type { FleetEvent } from '../../events.js'
import type { Fleet } from '../../fleet.js'
import { defaultLimits, type FleetLimits, type FleetOptions } from '../../options.js'
import type { InstanceSpec } from '../../backend.js'
import type { Heartbeat, HeartbeatAnswer } from '../../rules/heartbeat.js'
import { keyOf, type Ref } from '../../rules/resources.js'
import { BackendModel, type ModelInstance } from './backend-model.js'
import { Collector, resizeByHand, workByHand } from './by-hand.js'
import { callers } from './callers.js'
import { type Character, oddCharacters } from './game-model.js'
import { Host } from './host.js'
import { ByHand } from './invariants/by-hand.js'
import { Counts } from './invariants/counts.js'
import { Creations } from './invariants/creations.js'
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
import { brokenVersion, crashingVersion, createBuilds, operate } from './operators.js'
import { type Doomed, doomedBuild, type Scene } from './scene.js'
import { type StoreListener, StoreModel } from './store-model.js'
import { breakStoreWatch, makeTrouble, muteStore, strikeLeader, touchRecord } from './troubles.js'
import { World } from './world.js'

const minuteMs = 60_000
const quietMs = 3 * minuteMs
/** How long after a look the next one comes at the latest. */
const lookMs = 5_000
/** Far more than a fleet of this size does when all goes well, far less than one that runs in circles. */
const mostCallsAMinute = 20_000

const storyLimits = { heartbeatIntervalMs: 2_000, resyncMs: 30_000 }

export class Story implements Scene {
  readonly world: World
  readonly store: StoreModel
  readonly backend: BackendModel
  readonly lease: Lease
  readonly sessions: Sessions
  readonly waiting: Waiting
  readonly endings: Endings
  readonly byHand: ByHand
  readonly doomed: Doomed | undefined
  readonly tally = { allocations: 0, refusals: 0, hostCrashes: 0 }
  readonly hosts: Host[] = []
  /** The limits that the fleet is given, and all that it has. */
  readonly #given: Partial<FleetLimits>
  readonly #limits: FleetLimits
  readonly #createFleet: (options: FleetOptions) => Promise<Fleet>
  readonly #records: Records
  readonly #counts: Counts
  readonly #patience: Patience
  readonly #surplus: Surplus
  readonly #restart: Restart
  readonly #characters: readonly Character[]
  #hostCount = 0
  #lookedAt = 0
  /** What the leader said of itself when it was last looked at. */
  #seen: Seen | undefined

  constructor(seed: number, createFleet: (options: FleetOptions) => Promise<Fleet>, limits: Partial<FleetLimits>) {
    this.#createFleet = createFleet
    this.#given = { ...storyLimits, ...limits }
    this.#limits = { ...defaultLimits, ...this.#given }
    const longerMs = longerThanUsual(this.#limits)
    const world = new World(seed)
    this.world = world
    const hosts = world.chance(0.5) ? 2 : 1
    const faultiness = world.oneOf([0, 0.002, 0.01, 0.05]) ?? 0
    this.#characters = someCharacters(world)
    this.doomed = world.chance(0.3) ? doom(world, this.#limits) : undefined
    this.lease = new Lease(world, () => this.#elected())
    this.#restart = new Restart(world, () => this.store)
    this.sessions = new Sessions(world, () => this)
    this.waiting = new Waiting(world, this.#limits, () => this.store)
    this.#records = new Records(world)
    this.#surplus = new Surplus(world, this.#limits, () => this)
    this.#counts = new Counts(world, () => this.backend)
    this.#patience = new Patience(world, () => this.backend, (faultiness < 0.01 ? 5 : 12) * minuteMs + longerMs)
    this.endings = new Endings(world, () => ({ ...this.#parts, limits: this.#limits, lastSeen: () => this.#seen }))
    const storeMs = world.oneOf<readonly [number, number]>([
      [0, 5],
      [0, 5],
      [1, 50],
      [20, 200],
    ]) ?? [0, 5]
    const shared = hosts > 1 || world.chance(0.5)
    const isCalm = faultiness < 0.01
    this.byHand = new ByHand(world, () => this.#parts, {
      editMs: (isCalm ? 2 : 6) * this.#limits.resyncMs + minuteMs / 4,
      endMs: (isCalm ? 5 : 12) * minuteMs + longerMs,
    })
    // Every other story of those that share a store.
    const sharing = shared ? (seed % 2 === 0 ? 'watched' : 'shared') : 'own'
    this.store = new StoreModel(world, faultiness, storeMs, sharing, this.#listening(sharing === 'watched'))
    const range = { first: 10_000, last: 10_000 + world.between(12, 60) }
    this.backend = new BackendModel(world, faultiness, range, {
      character: (spec) => this.#character(spec),
      longestMatchMs: world.oneOf([20_000, 60_000, 400_000]) ?? 60_000,
      asked: (spec) => this.#asked(spec),
      heartbeat: (instance, heartbeat) => this.#heartbeat(instance, heartbeat),
      told: (instance, sessionID) => this.sessions.told(instance, sessionID),
      ending: (instance) => this.sessions.ending(instance),
    })
    for (let i = 0; i < hosts; i++) this.#startHost()
  }

  async run(faultyMs: number): Promise<void> {
    const { world } = this
    await this.#pass(1_000)
    this.#begin()
    await this.#pass(faultyMs)
    world.note('--- no more faults from here on ---')
    world.faulty = false
    for (const host of this.hosts) host.wake()
    // Longer than whatever may have to run out one after the other.
    const { firstHeartbeatMs, backoffLastMs, backoffResetMs, resyncMs } = this.#limits
    await this.#pass(2 * minuteMs + firstHeartbeatMs + backoffLastMs + resyncMs + longerThanUsual(this.#limits))
    // Nothing else happens to the build from here on that would give it away.
    if (resizeByHand(this) !== undefined) await this.#pass(2 * minuteMs + firstHeartbeatMs + 2 * resyncMs)
    else await this.#pass(minuteMs + resyncMs)
    // After a crash a change goes on a quarter at a time, each of which has to stay up for so long.
    if (await this.#isChanging()) await this.#pass(4 * (backoffResetMs + minuteMs))
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
    for (const host of this.hosts) host.crash()
  }

  anyHost(): Host | undefined {
    const able = this.hosts.filter((host) => host.answers)
    const leading = able.find((host) => host === this.lease.leader)
    return leading && !(this.world.faulty && this.world.chance(0.05)) ? leading : (this.world.oneOf(able) ?? leading)
  }

  crash(host: Host): void {
    this.tally.hostCrashes++
    this.#remove(host)
  }

  close(host: Host): void {
    const { world } = this
    const { fleet } = host
    if (!fleet) return this.crash(host)
    host.closing = true
    host.stirred = true
    const tooLate = world.after(15 * minuteMs, () => {
      if (host.alive && !host.closed) world.breach(`${host.name} cannot be closed`)
    })
    fleet
      .close()
      .then(() => {
        tooLate()
        host.closed = true
        world.note(`${host.name} is closed`)
        // It has the time to show that it really does nothing any more.
        world.after(10_000, () => (host.alive ? this.#remove(host) : undefined))
      })
      .catch((error: unknown) => world.fail(error))
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
      buildWritten: (before, after) => records.buildWritten(before, after),
      buildRemoved(before) {
        records.buildRemoved(before)
        collector?.buildRemoved(before)
      },
      serverWritten(before, after, late) {
        records.serverWritten(before, after, late)
        collector?.serverWritten(before, after)
      },
      serverRemoved(before, byHand) {
        records.serverRemoved(before, byHand)
        collector?.serverRemoved(before)
      },
    }
  }

  #character({ build, sdk }: InstanceSpec): Character {
    if (!this.world.faulty) return 'good'
    if (build.name === doomedBuild) return 'crashes-at-start'
    if (sdk.buildMetadata['version'] === crashingVersion) return 'crashes-when-ready'
    if (sdk.buildMetadata['version'] === brokenVersion) return this.world.oneOf(brokenCharacters) ?? 'mute'
    return this.world.oneOf(this.#characters) ?? 'good'
  }

  #asked(spec: InstanceSpec): string | undefined {
    const { ref, uid, build } = spec
    this.endings.asked(spec)
    if (!this.#records.known.has(uid)) this.world.breach(`${ref.name} was to be started before it had a record`)
    if (breaksRule(spec)) this.world.breach(`${ref.name} was to be started with a spec that breaks a rule`)
    if (build.name !== doomedBuild || !this.doomed) return undefined
    this.doomed.creations.asked()
    return this.doomed.kind === 'refused' && this.world.faulty ? 'no such image' : undefined
  }

  #heartbeat(instance: ModelInstance, heartbeat: Heartbeat): HeartbeatAnswer | undefined {
    const { world } = this
    if (world.fault('heartbeat: lost', 0.005)) return undefined
    const host = this.anyHost()
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

  #startHost(): void {
    const host: Host = new Host(this.world, `host-${++this.#hostCount}`, (event) => this.#heard(host, event))
    this.hosts.push(host)
    this.world.note(`${host.name} starts`)
    const parts = { backend: this.backend.for(host), store: this.store.for(host), elector: this.lease.elector(host) }
    host.start(this.#createFleet, parts, this.#given).catch((error: unknown) => {
      // As a supervisor would: a host that cannot start is started again.
      this.world.note(`${host.name} could not start: ${messageOf(error)}`)
      // What it was given can never be.
      if (FleetError.is(error, 'invalid')) return this.world.fail(error)
      if (host.alive) this.crash(host)
    })
  }

  /** Gone for good; another one is started in its place. */
  #remove(host: Host): void {
    host.crash()
    this.hosts.splice(this.hosts.indexOf(host), 1)
    this.backend.forget(host)
    this.waiting.gone(host)
    this.lease.gone(host)
    this.world.after(this.world.between(0, minuteMs), () => this.#startHost())
  }
}

const brokenCharacters: readonly Character[] = ['never-ready', 'never-ready', 'crashes-at-start', 'mute']

/** By how much with these limits something may last longer than with the usual ones. */
function longerThanUsual(limits: FleetLimits): number {
  const lasting = ['callMs', 'firstHeartbeatMs', 'silenceMs', 'backoffLastMs', 'backoffResetMs'] as const
  return lasting.reduce((ms, name) => ms + Math.max(0, limits[name] - defaultLimits[name]), 0)
}

function doom(world: World, limits: FleetLimits): Doomed {
  const standingBy = world.between(1, 3)
  const kind = world.chance(0.5) ? 'crashes' : 'refused'
  return { kind, standingBy, creations: new Creations(world, standingBy, limits) }
}

function someCharacters(world: World): readonly Character[] {
  const good: Character[] = Array.from({ length: 6 }, () => 'good')
  return [...good, ...oddCharacters.filter(() => world.chance(0.4))]
}
