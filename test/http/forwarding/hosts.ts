/** Hosts of one fleet in this process: a shared store, shared game servers, and an election that tests decide. */
import { memoryBackend, type MemoryBackendOptions } from 'gamekeeper/memory'
import {
  type Backend,
  createFleet,
  type ElectionListener,
  type Elector,
  type Fleet,
  type FleetLimits,
  systemClock,
} from 'gamekeeper'
import { serve, type Served, type ServeOptions } from 'gamekeeper/http'
import { onTestFinished } from 'vitest'
import { internalsOf, withInternals } from '../../../src/fleet/internals.js'
import { sharedMemory } from '../../stores/shared-memory.js'
import { until as untilWithin } from '../client.js'
import { openProxy, type Proxy } from './proxy.js'

/** Polls until the condition is true. */
export const until = (condition: () => boolean | Promise<boolean>) => untilWithin(condition, 60_000)

export const secret = 'a secret that hosts of a fleet share'

/** Decides who leads. */
export class Election {
  readonly #candidates = new Map<string, ElectionListener>()
  readonly #followers = new Set<(address: string | undefined) => void>()
  #leader: string | undefined
  /** Why hosts that join cannot lead. */
  #obstacle: string | undefined

  readonly elector: Elector = {
    run: (listener, { address = '' } = {}) => {
      this.#candidates.set(address, listener)
      if (this.#obstacle !== undefined) listener.blocked?.(this.#obstacle)
      if (this.#leader === address) listener.elected()
      else listener.lost()
      return () => {
        this.#candidates.delete(address)
        if (this.#leader === address) this.lead(undefined)
        return Promise.resolve()
      }
    },
    follow: (changed) => {
      this.#followers.add(changed)
      changed(this.#leader)
      return () => void this.#followers.delete(changed)
    },
  }

  get leader(): string | undefined {
    return this.#leader
  }

  /** Undefined: nobody. `isKnown`: whether the hosts learn of it. */
  lead(address: string | undefined, { isKnown = true } = {}): void {
    const before = this.#leader
    this.#leader = address
    if (before !== undefined && before !== address) this.#candidates.get(before)?.lost()
    if (isKnown) for (const follower of this.#followers) follower(address)
    if (address !== undefined) this.#candidates.get(address)?.elected()
  }

  /** Keeps hosts that join from leading, or the host at `address`. Undefined: no longer. */
  block(cause: string | undefined, address?: string): void {
    if (address === undefined) this.#obstacle = cause
    else this.#candidates.get(address)?.blocked?.(cause)
  }

  /** Tells all hosts that this one leads, or none, although it is not so. */
  pretend(address: string | undefined): void {
    for (const follower of this.#followers) follower(address)
  }
}

export interface Host {
  readonly fleet: Fleet
  readonly served: Served
  readonly allocate: string
  readonly manage: string
  readonly address: string
  /** Between this host and the others. */
  readonly proxy: Proxy
  lead(): void
  close(): Promise<void>
}

/** Of requests without `wait`: so long that no machine is too slow for them. */
const holdMs = 300_000

/** A heartbeat is held for the first of them at most, so that no held one is answered because its time is over. */
const limits = { heartbeatIntervalMs: 300_000, silenceMs: 600_000 }

export interface HostOptions {
  /** How long requests without `wait` are held. `usual`: as outside tests. */
  readonly holdMs?: number | 'usual'
  /** The games outlive each host, so that a backend does not close by default. */
  readonly closeBackend?: () => Promise<void>
  /** Called with the path of each request that is sent to another host. */
  readonly onSend?: (path: string) => void
  readonly secret?: string
  readonly limits?: Partial<FleetLimits>
  readonly serve?: Partial<ServeOptions>
}

export function hosts(more: Partial<Backend> = {}, games: MemoryBackendOptions = {}) {
  const election = new Election()
  const shared = sharedMemory()
  const backend = memoryBackend({ clock: systemClock, heartbeatIntervalMs: 25, ...games })
  return {
    election,
    backend,
    async open(options: HostOptions = {}): Promise<Host> {
      const proxy = await openProxy()
      onTestFinished(() => proxy.close())
      const { address } = proxy
      const created = await createFleet({
        backend: { ...backend, ...more, close: options.closeBackend ?? (() => Promise.resolve()) },
        store: shared.open(),
        elector: election.elector,
        forwarding: { address, secret: options.secret ?? secret },
        agent: { port: 0 },
        limits: { ...limits, ...options.limits },
        logger: false,
      })
      const fleet = withPatience(created, options)
      onTestFinished(() => fleet.close().catch(() => undefined))
      const port = { port: 0 }
      const served = await serve({
        fleet,
        ...{ allocation: port, management: port, forwarding: port, logger: false },
        ...options.serve,
      })
      onTestFinished(() => served.close())
      proxy.target(Number(new URL(served.forwardingUrl ?? '').port))
      return {
        ...{ fleet, served, address, proxy },
        allocate: `${served.allocationUrl}/api/v1/allocate`,
        manage: `${served.managementUrl}/api/v1`,
        lead: () => election.lead(address),
        async close() {
          await served.close()
          await fleet.close()
        },
      }
    },
  }
}

function withPatience(fleet: Fleet, { holdMs: ms = holdMs, onSend }: HostOptions): Fleet {
  const internals = internalsOf(fleet)
  const link = internals?.link
  if (!internals || !link) throw new Error('the fleet has no link to the leader')
  const send: typeof link.send = (address, request, signal) => {
    onSend?.(request.path)
    return link.send(address, request, signal)
  }
  const held = ms === 'usual' ? {} : { holdMs: ms }
  return { ...fleet, ...withInternals({ ...internals, link: { ...link, ...held, send } }) }
}
