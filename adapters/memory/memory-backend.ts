/**
 * A backend for unit tests whose game servers exist only in memory. Starts no processes, opens no sockets, and uses only the
 * given clock.
 */
import type { Backend, InstanceSpec } from '../../src/contracts/backend.js'
import { systemClock } from '../../src/contracts/clock.js'
import { FleetError, throwIfAborted } from '../../src/contracts/errors.js'
import { keyOf, type Ref, type RefLike } from '../../src/rules/model/resources.js'
import { unlessAborted } from '../../src/util/signals.js'
import { DeferredListeners } from './deferred-listeners.js'
import { Nodes } from './nodes.js'
import { type MemoryBackendOptions, type ResolvedMemoryOptions, resolveMemoryOptions } from './options.js'
import { type MemoryServer, ScriptedServer, type ScriptedServerDependencies } from './scripted-server.js'

export interface MemoryBackend extends Backend {
  /** Returns the server with that name, so that a test can act as its game. Throws `not-found`. */
  server(ref: RefLike): MemoryServer
  /** Returns all servers that have not been destroyed, or those of one build, oldest first. */
  servers(of?: { readonly build: RefLike }): readonly MemoryServer[]
  /** Makes the next `create` of a new server reject with this error and start nothing. Each call adds one failure. */
  failNextCreate(error: Error): void
  /** Reports the nodes that are due for maintenance, with the wall time in ms at which it begins. Default: none. */
  reportMaintenance(nodes: ReadonlyMap<string, number>): void
}

/**
 * Works on the system clock as it is, or on the clock of a test. Its timers do not keep the process from exiting.
 *
 * Servers keep running when the fleet closes, as with every backend: a second `createFleet` with the same backend and store
 * finds them. `close` only ends the watches. Throws `invalid`, naming the invalid option.
 */
export function memoryBackend(options: MemoryBackendOptions = {}): MemoryBackend {
  const resolved = resolveMemoryOptions(options)
  const { clock, createLatencyMs } = resolved
  const listeners = new DeferredListeners()
  const servers = new MemoryServers(resolved, listeners)
  let maintenance: ReadonlyMap<string, number> = new Map()

  return {
    name: 'memory',
    capabilities: Object.freeze({
      template: 'pod',
      agent: false,
      regularHeartbeats: clock !== undefined && resolved.heartbeatIntervalMs !== 0,
    }),
    defaultStore: Object.freeze({ kind: 'memory' }),
    clock: options.clock ?? systemClock,

    async create(spec, { signal } = {}) {
      throwIfAborted(signal)
      const server = servers.create(spec)
      if (clock && createLatencyMs > 0) {
        await unlessAborted(new Promise<void>((resolve) => clock.after(createLatencyMs, resolve)), signal)
      }
      return server.instance
    },

    async destroy(ref, uid, { graceMs, signal }) {
      throwIfAborted(signal)
      const server = servers.find(ref)
      if (server?.spec.uid === uid) await unlessAborted(server.destroy(graceMs), signal)
    },

    async list({ signal } = {}) {
      throwIfAborted(signal)
      return servers.all().map((server) => server.instance)
    },

    async writeStdin(ref, line, { signal } = {}) {
      throwIfAborted(signal)
      servers.get(ref).writeStdin(line)
    },

    /** Every command succeeds: there is no program. */
    async exec(ref, _, { onStarted, signal } = {}) {
      throwIfAborted(signal)
      const { phase } = servers.get(ref)
      if (phase !== 'running') throw new FleetError('not-found', `server ${keyOf(ref)} does not run`)
      onStarted?.()
      return { exitCode: 0, output: '' }
    },

    watch(listener) {
      const remove = listeners.add(listener)
      for (const server of servers.all()) server.onListenerAdded()
      listeners.notifyAll((one) => one.maintenance?.(maintenance))
      return remove
    },

    async close() {
      listeners.clear()
    },

    server: (ref) => servers.get(ref),
    servers: (of) => (of ? servers.ofBuild(of.build) : servers.all()),
    failNextCreate: (error) => servers.failNextCreate(error),
    reportMaintenance(nodes) {
      maintenance = new Map(nodes)
      listeners.notifyAll((listener) => listener.maintenance?.(maintenance))
    },
  }
}

class MemoryServers {
  readonly #shared: ScriptedServerDependencies
  readonly #nodes: Nodes
  readonly #servers = new Map<string, ScriptedServer>()
  readonly #failures: Error[] = []

  constructor(options: ResolvedMemoryOptions, listeners: DeferredListeners) {
    this.#shared = { options, listeners, onGone: ({ spec }) => this.#servers.delete(keyOf(spec.ref)) }
    this.#nodes = new Nodes(options.nodes, options.portRange)
  }

  failNextCreate(error: Error): void {
    this.#failures.push(error)
  }

  /** Starts a server, or returns the existing one for this spec. Throws `conflict` and `ports-exhausted`. */
  create(spec: InstanceSpec): ScriptedServer {
    const key = keyOf(spec.ref)
    const existing = this.#servers.get(key)
    if (existing?.spec.uid === spec.uid) return existing
    if (existing) throw new FleetError('conflict', `server ${key} still exists with uid ${existing.spec.uid}`)
    const failure = this.#failures.shift()
    if (failure) throw failure
    const server = new ScriptedServer(spec, this.#nodes.place(spec.portsToExpose), this.#shared)
    this.#servers.set(key, server)
    server.start()
    return server
  }

  find(ref: Ref): ScriptedServer | undefined {
    return this.#servers.get(keyOf(ref))
  }

  /** Throws `not-found` if there is no such server. */
  get(ref: RefLike): ScriptedServer {
    const key = keyOf(fullRef(ref))
    const server = this.#servers.get(key)
    if (server) return server
    const known = [...this.#servers.keys()].slice(0, 10).join(', ')
    throw new FleetError('not-found', `no server ${key}; known servers: ${known || 'none'}`)
  }

  all(): readonly ScriptedServer[] {
    return [...this.#servers.values()]
  }

  ofBuild(build: RefLike): readonly ScriptedServer[] {
    const key = keyOf(fullRef(build))
    return this.all().filter((server) => keyOf(server.spec.build) === key)
  }
}

function fullRef(ref: RefLike): Ref {
  return typeof ref === 'string'
    ? { namespace: 'default', name: ref }
    : { namespace: ref.namespace ?? 'default', name: ref.name }
}
