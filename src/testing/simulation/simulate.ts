/**
 * Runs one story: the real fleet, unchanged, in a modelled world where everything fails, and checks the invariants
 * after every step. At the end the faults stop, and the fleet has to come to rest by itself and then make no call.
 */
import type { ElectionListener, Elector } from '../../elector.js'
import { messageOf } from '../../errors.js'
import type { Fleet } from '../../fleet.js'
import type { FleetOptions } from '../../options.js'
import { keyOf } from '../../rules/resources.js'
import type { GameServer, GameServerBuild } from '../../rules/wire.js'
import { BackendModel } from './backend-model.js'
import { caller, type Cast, createBuild, operate } from './callers.js'
import type { Character } from './game-model.js'
import { Host } from './host.js'
import { Invariants, Violation } from './invariants.js'
import { StoreModel } from './store-model.js'
import { World } from './world.js'

export interface SimulationOptions {
  /** Decides everything. */
  readonly seed: number
  /** Simulated time with faults. Default 20 minutes; some more without faults follows. */
  readonly minutes?: number
  /** The fleet to try: `createFleet` of gamekeeper. */
  readonly createFleet: (options: FleetOptions) => Promise<Fleet>
}

export interface SimulationResult {
  readonly seed: number
  /** Absent when every invariant held. */
  readonly violation?: string
  /** What happened before the violation, oldest first. */
  readonly history: readonly string[]
  readonly steps: number
  readonly allocations: number
  readonly refusals: number
  readonly hostCrashes: number
  readonly faults: Readonly<Record<string, number>>
}

const minuteMs = 60_000
const leaseMs = 15_000
/** Longer than the first-heartbeat limit, the longest back-off and a resync together. */
const restMs = 6 * minuteMs

const limits = { heartbeatIntervalMs: 2_000, resyncMs: 30_000 }

export async function simulate(options: SimulationOptions): Promise<SimulationResult> {
  const story = new Story(options)
  let violation: string | undefined
  try {
    await story.run((options.minutes ?? 20) * minuteMs)
  } catch (error) {
    violation =
      error instanceof Violation ? error.message : `unexpected: ${error instanceof Error ? error.stack : error}`
    story.lastWords()
  } finally {
    story.end()
  }
  const { world, tally, hostCrashes } = story
  return {
    seed: options.seed,
    ...(violation !== undefined && { violation }),
    history: violation === undefined ? [] : world.history(60),
    steps: world.steps,
    allocations: tally.allocations,
    refusals: tally.refusals,
    hostCrashes,
    faults: world.faults,
  }
}

class Story {
  readonly world: World
  readonly tally = { allocations: 0, refusals: 0 }
  hostCrashes = 0
  readonly #options: SimulationOptions
  readonly #store: StoreModel
  readonly #backend: BackendModel
  readonly #invariants: Invariants
  readonly #cast: Cast
  readonly #hosts: Host[] = []
  readonly #electors = new Map<Host, ElectionListener>()
  readonly #characters: readonly Character[]
  #leader: Host | undefined
  #failure: unknown
  #hostCount = 0

  constructor(options: SimulationOptions) {
    this.#options = options
    const world = new World(options.seed)
    this.world = world
    const faultiness = world.oneOf([0, 0.002, 0.01, 0.05]) ?? 0
    this.#characters = characters(world)
    this.#store = new StoreModel(world, faultiness)
    this.#backend = new BackendModel(
      world,
      faultiness,
      { first: 10_000, last: 10_000 + world.between(12, 60) },
      {
        character: () => (world.faulty ? (world.oneOf(this.#characters) ?? 'good') : 'good'),
        heartbeat: (id, heartbeat) => {
          if (world.fault('heartbeat: lost', 0.005)) return undefined
          const host = this.#answering()
          const answer = host?.fleet?.heartbeat(id, heartbeat)
          if (answer?.operation === 'Terminate') {
            const instance = [...this.#backend.instances.values()].find((one) => one.spec.sdk.sessionHostId === id)
            if (instance) this.#guard(() => this.#invariants.ending(instance))
          }
          return answer
        },
        told: (instance, sessionID) => this.#guard(() => this.#invariants.told(instance, sessionID)),
        ending: (instance) => this.#guard(() => this.#invariants.ending(instance)),
      },
    )
    this.#invariants = new Invariants(world, () => this.#backend)
    this.#cast = {
      world,
      anyHost: () => this.#answering(),
      backend: this.#backend,
      invariants: this.#invariants,
      failed: (error) => this.#fail(error),
      tally: this.tally,
    }
  }

  async run(faultyMs: number): Promise<void> {
    const { world } = this
    const hosts = world.chance(0.4) ? 2 : 1
    for (let i = 0; i < hosts; i++) this.#startHost()
    await this.#pass(1_000)
    this.#plot()
    await this.#pass(faultyMs)
    world.note('--- no more faults from here on ---')
    world.faulty = false
    await this.#pass(restMs)
    await this.#checkRest()
  }

  /** How things stand, for whoever reads the history of a breach. */
  lastWords(): void {
    for (const { spec, phase, game } of this.#backend.instances.values()) {
      this.world.note(`instance ${spec.ref.name}: ${phase}, ${game?.character ?? 'not begun'}, ${game?.state ?? ''}`)
    }
    for (const { record } of this.#store.servers.values()) {
      this.world.note(`record ${record.name}: ${record.state}, ${record.session?.id ?? 'no session'}`)
    }
  }

  /** Nothing of the story may go on after it. */
  end(): void {
    for (const host of this.#hosts) host.crash()
  }

  async #pass(ms: number): Promise<void> {
    const until = this.world.elapsedMs + ms
    while (await this.world.step(until)) {
      if (this.#failure !== undefined) throw this.#failure
      await this.#check()
    }
    this.world.elapsedMs = until
  }

  async #check(): Promise<void> {
    for (const host of this.#hosts) {
      if (!host.alive || !host.fleet || host !== this.#leader) continue
      const seen = await look(host.fleet)
      if (seen) this.#invariants.check(seen.builds, seen.servers)
    }
  }

  /** Begins everything that goes on by itself. */
  #plot(): void {
    const { world } = this
    const now = (fn: () => Promise<void>) => void fn().catch((error: unknown) => this.#fail(error))
    const whileFaulty = (least: number, most: number, fn: () => void) => {
      const again = () => {
        if (!world.faulty) return
        fn()
        world.after(world.between(least, most), again)
      }
      world.after(world.between(least, most), again)
    }
    for (const name of ['arena', 'duel']) {
      const fleet = this.#answering()?.fleet
      if (fleet) now(() => createBuild(this.#cast, fleet, name).catch(() => undefined))
    }
    const rush = world.oneOf([1_000, 5_000, 20_000]) ?? 5_000
    // Most of the time a fleet has nothing to do: a crash in the middle of something has to be aimed.
    const aimed = world.oneOf([0, 0, 0.01, 0.05]) ?? 0
    whileFaulty(rush / 10, rush * 2, () => {
      now(() => caller(this.#cast))
      if (world.chance(aimed)) world.after(world.between(0, 30), () => this.#crashLeader())
    })
    whileFaulty(10_000, 120_000, () => now(() => operate(this.#cast)))
    const trouble = world.oneOf([0, 1, 1, 1])
    if (trouble === 0) return
    whileFaulty(20_000, 300_000, () => this.#trouble())
  }

  #trouble(): void {
    const { world } = this
    const host = world.oneOf(this.#hosts.filter((one) => one.alive))
    const count = (kind: string) => {
      world.faults[kind] = (world.faults[kind] ?? 0) + 1
      world.note(`trouble: ${kind}${host ? ` (${host.name})` : ''}`)
    }
    switch (world.between(0, 8)) {
      case 0:
      case 1:
        if (!host) return
        count('host: crash')
        return this.#crash(host)
      case 2:
        count('store: away')
        return this.#store.goAway(world.between(500, 60_000))
      case 3:
        count('backend: away')
        return this.#backend.goAway(world.between(500, 90_000))
      case 4:
        if (!host) return
        count('watch: dies in silence')
        return this.#backend.deafen(host, world.between(1_000, 120_000), false)
      case 5:
        if (!host) return
        count('watch: interrupted')
        return this.#backend.deafen(host, world.between(1_000, 30_000), true)
      case 6:
        if (!host) return
        count('host: suspended')
        return this.#suspend(host, world.between(1_000, 300_000))
      case 7:
        if (!host) return
        count('clock: jumps')
        return host.jumpWall(world.between(-3_600_000, 3_600_000))
      case 8: {
        const instance = world.oneOf([...this.#backend.instances.values()])
        if (!instance) return
        count('instance: removed by hand')
        return this.#backend.vanish(instance)
      }
    }
  }

  #startHost(): void {
    const host = new Host(this.world, `host-${++this.#hostCount}`)
    this.#hosts.push(host)
    this.world.note(`${host.name} starts`)
    const parts = { backend: this.#backend.for(host), store: this.#store.for(host), elector: this.#elector(host) }
    host.start(this.#options.createFleet, parts, limits).catch((error: unknown) => {
      // As a supervisor would: a host that cannot start is started again.
      this.world.note(`${host.name} could not start: ${messageOf(error)}`)
      if (host.alive) this.#crash(host)
    })
  }

  #crash(host: Host): void {
    this.hostCrashes++
    host.crash()
    this.#hosts.splice(this.#hosts.indexOf(host), 1)
    this.#electors.delete(host)
    if (this.#leader === host) this.#leaderless()
    this.world.after(this.world.between(0, 60_000), () => this.#startHost())
  }

  #crashLeader(): void {
    const leader = this.#leader
    if (!leader?.alive) return
    this.world.faults['host: crash'] = (this.world.faults['host: crash'] ?? 0) + 1
    this.world.note(`trouble: host: crash (${leader.name}), in the middle of something`)
    this.#crash(leader)
  }

  #suspend(host: Host, ms: number): void {
    host.suspend(ms)
    if (this.#leader !== host || ms < leaseMs) return
    this.world.after(leaseMs, () => {
      if (this.#leader !== host || this.#electors.size < 2) return
      // Told first of all when it wakes up, as a host that watches its own lease would be.
      const listener = this.#electors.get(host)
      host.runFirst(() => listener?.lost())
      this.#elect(host)
    })
  }

  /** One lease for all: whoever asks first has it, and it passes on when its holder is gone for long enough. */
  #elector(host: Host): Elector {
    return {
      run: (listener) => {
        this.#electors.set(host, listener)
        if (!this.#leader) this.#elect()
        else if (this.#leader !== host) host.run(() => listener.lost(this.#leader?.name))
        return () => Promise.resolve()
      },
    }
  }

  #leaderless(): void {
    this.#leader = undefined
    if (this.#electors.size > 0) this.world.after(leaseMs, () => (this.#leader ? undefined : this.#elect()))
  }

  #elect(not?: Host): void {
    const [next] = [...this.#electors].filter(([host]) => host !== not && host.alive)
    if (!next) return
    const [host, listener] = next
    this.#leader = host
    this.world.note(`${host.name} is elected`)
    host.run(() => listener.elected())
  }

  #answering(): Host | undefined {
    const able = this.#hosts.filter((host) => host.alive && !host.suspended && host.fleet)
    const leading = able.find((host) => host === this.#leader)
    return leading && !this.world.chance(0.05) ? leading : (this.world.oneOf(able) ?? leading)
  }

  /** Breaches found inside a callback of the fleet must not be swallowed by it. */
  #guard(fn: () => void): void {
    try {
      fn()
    } catch (error) {
      this.#fail(error)
    }
  }

  #fail(error: unknown): void {
    this.#failure ??= error
  }

  /** Everything is as the builds want it, and stays so without a call but the resync. */
  async #checkRest(): Promise<void> {
    const fleet = this.#leader?.fleet
    if (!fleet) throw new Violation('no host leads although nothing fails')
    const { builds, servers } = (await look(fleet)) ?? { builds: [], servers: [] }
    for (const build of builds) this.#checkSettled(build)
    const waitsForPorts = (server: GameServer) => server.status.message === 'no port is free'
    for (const server of servers) if (!waitsForPorts(server)) this.#checkFinal(server)
    for (const instance of this.#backend.instances.values()) {
      if (!servers.some((server) => keyOf(server.metadata) === keyOf(instance.spec.ref))) {
        throw new Violation(`instance ${instance.spec.ref.name} was left behind`)
      }
    }
    if (this.#store.servers.size !== servers.length) {
      throw new Violation(`the store has ${this.#store.servers.size} servers, the fleet ${servers.length}`)
    }
    for (const { record } of this.#store.servers.values()) {
      const shown = servers.find((server) => keyOf(server.metadata) === keyOf(record))
      if (shown?.status.state !== record.state) {
        throw new Violation(`the store has ${record.name} as ${record.state}, the fleet as ${shown?.status.state}`)
      }
    }
    if (servers.some(waitsForPorts)) return
    const before = { writes: this.#quietWrites(), creates: this.#backend.creates, destroys: this.#backend.destroys }
    await this.#pass(3 * minuteMs)
    const after = { writes: this.#quietWrites(), creates: this.#backend.creates, destroys: this.#backend.destroys }
    if (JSON.stringify(before) !== JSON.stringify(after)) {
      throw new Violation(`a settled fleet made calls: ${JSON.stringify({ before, after })}`)
    }
  }

  #quietWrites(): number {
    return [...this.#store.builds.values(), ...this.#store.servers.values()].reduce(
      (newest, { revision }) => Math.max(newest, Number(revision)),
      0,
    )
  }

  #checkSettled(build: GameServerBuild): void {
    const { spec, status, metadata } = build
    const wanted = Math.max(0, Math.min(spec.standingBy, spec.max - status.currentActive))
    const idle = status.currentPending + status.currentInitializing + status.currentStandingBy
    const enough = status.health === 'Unhealthy' ? idle <= wanted : idle === wanted
    // With no port left there is nothing that the fleet could do.
    if (status.conditions?.some((condition) => condition.reason === 'ports-exhausted')) return
    if (!enough || (status.health === 'Healthy' && status.currentStandingBy !== wanted)) {
      throw new Violation(
        `build ${metadata.name} did not come to rest: ${JSON.stringify({ spec: { standingBy: spec.standingBy, max: spec.max }, status })}`,
      )
    }
  }

  #checkFinal(server: GameServer): void {
    const { state } = server.status
    if (state !== 'StandingBy' && state !== 'Active') {
      throw new Violation(`${server.metadata.name} is still ${state}: ${server.status.message ?? ''}`)
    }
  }
}

/** What a fleet says of itself; nothing while it does not lead. */
async function look(
  fleet: Fleet,
): Promise<{ builds: readonly GameServerBuild[]; servers: readonly GameServer[] } | undefined> {
  try {
    return { builds: await fleet.builds.list(), servers: await fleet.servers.list() }
  } catch {
    return undefined
  }
}

function characters(world: World): readonly Character[] {
  const good: Character[] = Array.from({ length: 6 }, () => 'good')
  const odd: Character[] = [
    'never-ready',
    'mute',
    'crashes-at-start',
    'crashes',
    'ends-idle',
    'always-unhealthy',
    'turns-unhealthy',
    'stalls',
    'ignores-terminate',
  ]
  return [...good, ...odd.filter(() => world.chance(0.4))]
}
