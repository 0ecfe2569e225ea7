/** One story: hosts, games, callers and operators in one world, and what must hold at every step of it. */
import { messageOf } from '../../errors.js'
import type { FleetEvent } from '../../events.js'
import type { Fleet } from '../../fleet.js'
import { defaultLimits, type FleetOptions } from '../../options.js'
import type { InstanceSpec } from '../../backend.js'
import type { Heartbeat, HeartbeatAnswer } from '../../rules/heartbeat.js'
import { BackendModel, type ModelInstance } from './backend-model.js'
import { callers } from './callers.js'
import { type Character, oddCharacters } from './game-model.js'
import { Host } from './host.js'
import { Counts } from './invariants/counts.js'
import { Creations } from './invariants/creations.js'
import { Endings } from './invariants/endings.js'
import { Patience } from './invariants/patience.js'
import { Records } from './invariants/records.js'
import { checkRest } from './invariants/rest.js'
import { look, type Seen } from './invariants/seen.js'
import { Sessions } from './invariants/sessions.js'
import { Surplus } from './invariants/surplus.js'
import { Waiting } from './invariants/waiting.js'
import { Lease } from './lease.js'
import { createBuilds, operate } from './operators.js'
import { type Doomed, doomedBuild, type Scene } from './scene.js'
import { StoreModel } from './store-model.js'
import { makeTrouble, strikeLeader, touchRecord } from './troubles.js'
import { World } from './world.js'

const minuteMs = 60_000
/** Longer than the first-heartbeat limit, the longest back-off and a resync together. */
const restMs = 6 * minuteMs
const quietMs = 3 * minuteMs
/** Far more than a fleet of this size does when all goes well, far less than one that runs in circles. */
const mostCallsAMinute = 20_000

const overrides = { heartbeatIntervalMs: 2_000, resyncMs: 30_000 }
const limits = { ...defaultLimits, ...overrides }

export class Story implements Scene {
  readonly world: World
  readonly store: StoreModel
  readonly backend: BackendModel
  readonly lease: Lease
  readonly sessions: Sessions
  readonly waiting: Waiting
  readonly endings: Endings
  readonly doomed: Doomed | undefined
  readonly tally = { allocations: 0, refusals: 0, hostCrashes: 0 }
  readonly hosts: Host[] = []
  readonly #createFleet: (options: FleetOptions) => Promise<Fleet>
  readonly #records: Records
  readonly #counts: Counts
  readonly #patience: Patience
  readonly #surplus: Surplus
  readonly #characters: readonly Character[]
  #hostCount = 0
  /** What the leader said of itself when it was last looked at. */
  #seen: Seen | undefined

  constructor(seed: number, createFleet: (options: FleetOptions) => Promise<Fleet>) {
    this.#createFleet = createFleet
    const world = new World(seed)
    this.world = world
    const hosts = world.chance(0.4) ? 2 : 1
    const faultiness = world.oneOf([0, 0.002, 0.01, 0.05]) ?? 0
    this.#characters = someCharacters(world)
    this.doomed = world.chance(0.3) ? doom(world) : undefined
    this.lease = new Lease(world, () => this.doomed?.creations.elected())
    this.sessions = new Sessions(world, () => this)
    this.waiting = new Waiting(world, () => this.store)
    this.#records = new Records(world)
    this.#surplus = new Surplus(world, () => this)
    this.#counts = new Counts(world, () => this.backend)
    this.#patience = new Patience(world, () => this.backend, (faultiness < 0.01 ? 5 : 12) * minuteMs)
    this.endings = new Endings(world, () => ({ ...this.#parts, limits, lastSeen: () => this.#seen }))
    this.store = new StoreModel(world, faultiness, hosts > 1 || world.chance(0.5), this.#records)
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
    await this.#pass(restMs)
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
    return leading && !this.world.chance(0.05) ? leading : (this.world.oneOf(able) ?? leading)
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
    const { store, backend } = this
    const fair = leader?.answers === true && !store.away && !backend.away && !backend.isDeaf(leader)
    this.#patience.passed(fair)
    if (!leader?.fleet || !leader.alive) return
    if (leader.stirred) {
      leader.stirred = false
      this.#seen = await look(leader, leader.fleet)
      if (!this.#seen) return
      this.#counts.check(this.#seen)
      this.sessions.check(this.#seen)
      this.#patience.check(this.#seen)
      this.#surplus.check(this.#seen)
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
    now(() => createBuilds(this))
    const rush = world.oneOf([1_000, 5_000, 20_000]) ?? 5_000
    // Most of the time a fleet has nothing to do: what is to hit it in the middle of something has to be aimed.
    const aimed = world.oneOf([0, 0, 0.01, 0.05]) ?? 0
    const touching = world.oneOf([0, 0, 0.1, 0.3]) ?? 0
    const soon = (fn: () => void) => world.after(world.between(0, 30), fn)
    whileFaulty(rush / 10, rush * 2, () => {
      now(() => callers(this, world.chance(0.15) ? world.between(2, 5) : 1))
      if (world.chance(aimed)) soon(() => strikeLeader(this))
      if (world.chance(touching)) soon(() => touchRecord(this))
    })
    whileFaulty(10_000, 120_000, () => now(() => operate(this)))
    if (world.chance(0.75)) whileFaulty(20_000, 300_000, () => makeTrouble(this))
  }

  get #calls(): number {
    return this.store.calls + this.backend.calls
  }

  get #parts() {
    const { backend, store, lease, sessions } = this
    return { backend, store, lease, sessions }
  }

  #character({ build }: InstanceSpec): Character {
    if (!this.world.faulty) return 'good'
    if (build.name === doomedBuild) return 'crashes-at-start'
    return this.world.oneOf(this.#characters) ?? 'good'
  }

  #asked({ ref, uid, build }: InstanceSpec): string | undefined {
    if (!this.#records.known.has(uid)) this.world.breach(`${ref.name} was to be started before it had a record`)
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
    if (answer?.operation === 'Terminate') this.sessions.ending(instance)
    return answer
  }

  #heard(host: Host, event: FleetEvent): void {
    if (event.type === 'ServerCreated') this.#counts.serverCreated(event.build.name)
    if (event.type !== 'ServerEnding') return
    if (host === this.lease.leader) this.#surplus.ended(event.build.name, event.reason)
    this.endings.heard(host, event)
  }

  #startHost(): void {
    const host: Host = new Host(this.world, `host-${++this.#hostCount}`, (event) => this.#heard(host, event))
    this.hosts.push(host)
    this.world.note(`${host.name} starts`)
    const parts = { backend: this.backend.for(host), store: this.store.for(host), elector: this.lease.elector(host) }
    host.start(this.#createFleet, parts, overrides).catch((error: unknown) => {
      // As a supervisor would: a host that cannot start is started again.
      this.world.note(`${host.name} could not start: ${messageOf(error)}`)
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

function doom(world: World): Doomed {
  const standingBy = world.between(1, 3)
  const kind = world.chance(0.5) ? 'crashes' : 'refused'
  return { kind, standingBy, creations: new Creations(world, standingBy, limits) }
}

function someCharacters(world: World): readonly Character[] {
  const good: Character[] = Array.from({ length: 6 }, () => 'good')
  return [...good, ...oddCharacters.filter(() => world.chance(0.4))]
}
