/**
 * One host process, which runs the real fleet over the modelled store and backend. The host can crash at any `await` in the
 * engine, be closed or be suspended, and its wall clock can jump.
 */
import type { Backend } from '../../../src/contracts/backend.js'
import type { Clock } from '../../../src/contracts/clock.js'
import type { Elector } from '../../../src/contracts/elector.js'
import type { EventOf, FleetEvent } from '../../../src/contracts/events.js'
import type { Fleet } from '../../../src/contracts/fleet.js'
import type { FleetOptions } from '../../../src/contracts/options.js'
import type { Prober } from '../../../src/contracts/prober.js'
import type { AskWebhook } from '../../../src/contracts/scaling-demand.js'
import type { Store } from '../../../src/contracts/store.js'
import { allowedOrigin } from '../models/webhook-model.js'
import type { World } from './world.js'

/** `askWebhook` answers the webhooks of scaling policies, and `prober` asks games without an SDK. */
export type CreateFleet = (options: FleetOptions, outside: Outside) => Promise<Fleet>

export interface Outside {
  readonly askWebhook: AskWebhook
  readonly prober: Prober
}

export interface HostAdapters extends Outside {
  readonly backend: Backend
  readonly store: Store
  readonly elector: Elector
}

/** The fleet may not notice a suspension shorter than this, and then it does not restart its heartbeat timeouts. */
const noticeableSuspensionMs = 4_000

export class Host {
  alive = true
  closing = false
  /** Whether `fleet.close()` has resolved. */
  closed = false
  /** Whether the elector last reported this host as the leader. */
  leads = false
  /** Elapsed ms at which its fleet last began to lead: some time after the election, because it reads the store first. */
  leadsSince = 0
  /** How often this host was elected. */
  terms = 0
  fleet: Fleet | undefined
  /** Elapsed ms at which the host started or last woke up. */
  awakeSince: number
  /** Elapsed ms since which the host has received heartbeats without a gap that the fleet notices. */
  listeningSince: number
  /** Whether the host emitted an event or received a call since the last snapshot. */
  hasNews = true
  #suspendedSince = 0
  #suspendedUntil = 0
  suspended = false
  #wallJumpMs = 0
  #deferred: (() => void)[] = []
  /** Runs before `#deferred` when the host wakes up. */
  #deferredFirst: (() => void)[] = []

  constructor(
    readonly world: World,
    readonly name: string,
    readonly onEvent: (event: FleetEvent) => void,
    readonly onSessionEnded: (event: EventOf<'SessionEnded'>) => void,
  ) {
    this.awakeSince = world.elapsedMs
    this.listeningSince = world.elapsedMs
  }

  /** True if the host answers calls. */
  get isResponsive(): boolean {
    return this.alive && !this.suspended && !this.closing && this.fleet !== undefined
  }

  /** False if what it writes now is the late effect of an earlier call. */
  get mayWrite(): boolean {
    return this.alive && this.leads && !this.closed
  }

  /** Runs `fn` on this host. While the host is suspended, `fn` is deferred; after a crash it never runs. */
  run(fn: () => void): void {
    if (!this.alive) return
    if (this.suspended) {
      this.#deferred.push(fn)
      return
    }
    fn()
  }

  /** What its clock shows, which may be set. */
  get wallMs(): number {
    return this.world.wallMs + this.#wallJumpMs
  }

  clock(): Clock {
    const { world } = this
    return {
      now: () => this.wallMs,
      elapsed: () => world.elapsedMs,
      after: (ms, fn) => {
        // A timer can be cancelled even after it came due while the host was suspended.
        let due: (() => void) | undefined = fn
        const cancel = world.after(ms, () => this.run(() => due?.()))
        return () => {
          due = undefined
          cancel()
        }
      },
      randomBytes: (count) => world.bytes(count),
    }
  }

  async start(
    createFleet: CreateFleet,
    { askWebhook, prober, ...adapters }: HostAdapters,
    limits: NonNullable<FleetOptions['limits']>,
  ): Promise<void> {
    const options = {
      ...adapters,
      limits,
      ...(this.world.budget !== undefined && { budget: { servers: this.world.budget } }),
      logger: false as const,
      clock: this.clock(),
      agent: { external: 'agent:56001' },
      // What has ended while no host ran may be told before the fleet is there.
      on: { SessionEnded: (event: EventOf<'SessionEnded'>) => (this.alive ? this.onSessionEnded(event) : undefined) },
      scalingWebhooks: [allowedOrigin],
    } satisfies FleetOptions
    const fleet = await createFleet(options, { askWebhook, prober })
    if (!this.alive) return
    this.fleet = fleet
    this.leadsSince = this.world.elapsedMs
    fleet.on('*', (event) => {
      if (!this.alive) return
      if (event.type === 'LeadershipChanged' && event.leads) this.leadsSince = this.world.elapsedMs
      if (event.type !== 'PlayersChanged') {
        this.hasNews = true
        this.world.note(`${this.name}: ${event.type}: ${event.message}`)
      }
      this.onEvent(event)
    })
  }

  /** Called before every write to the store or backend. Reports a violation if the host is closed or is not the leader. */
  beforeChange(of: string): void {
    this.hasNews = true
    if (this.closed) this.world.violate(`${this.name} changes the ${of} after its fleet was closed`)
    else if (!this.leads) this.world.violate(`${this.name} changes the ${of} without being the leader`)
  }

  /** Like `run`, but a suspended host runs `fn` before anything else when it wakes up. */
  runFirst(fn: () => void): void {
    if (this.alive && this.suspended) this.#deferredFirst.push(fn)
    else this.run(fn)
  }

  /** Stops the host immediately. Calls that it has already made may still take effect. */
  crash(): void {
    this.alive = false
    this.fleet = undefined
    this.#deferred = []
    this.#deferredFirst = []
  }

  suspend(ms: number): void {
    const { elapsedMs } = this.world
    if (!this.suspended) this.#suspendedSince = elapsedMs
    this.suspended = true
    this.#suspendedUntil = Math.max(this.#suspendedUntil, elapsedMs + ms)
    this.world.after(ms, () => {
      if (this.world.elapsedMs >= this.#suspendedUntil) this.wake()
    })
  }

  wake(): void {
    if (!this.suspended) return
    const { elapsedMs } = this.world
    this.suspended = false
    this.awakeSince = elapsedMs
    if (elapsedMs - this.#suspendedSince >= noticeableSuspensionMs) this.listeningSince = elapsedMs
    for (const fn of this.#deferredFirst.splice(0)) this.run(fn)
    for (const fn of this.#deferred.splice(0)) this.world.after(0, () => this.run(fn))
  }

  jumpWall(ms: number): void {
    this.world.skewMs += Math.abs(ms)
    this.#wallJumpMs += ms
  }
}
