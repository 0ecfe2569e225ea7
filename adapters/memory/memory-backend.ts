/**
 * Game servers that exist in memory only: for unit tests of host apps and of the fleet itself. It starts nothing, opens
 * nothing and has no timer but the given clock's.
 */
import type { Backend, BackendListener, DestroyOptions, InstanceSpec } from '../../src/contracts/backend.js'
import type { CallOptions } from '../../src/contracts/call-options.js'
import { FleetError, throwIfAborted } from '../../src/contracts/errors.js'
import { keyOf, type Ref, type RefLike } from '../../src/rules/model/resources.js'
import { unlessAborted } from '../../src/util/signals.js'
import { listenersOf } from './listeners.js'
import { machinesOf } from './machines.js'
import type { MemoryServer } from './memory-server.js'
import { type MemoryBackendOptions, resolveMemoryOptions } from './options.js'
import { ScriptedServer } from './scripted-server.js'

export interface MemoryBackend extends Backend {
  /** The server of that name, to play its part. Throws `not-found`. */
  server(ref: RefLike): MemoryServer
  /** All servers, the oldest first, until they are destroyed; those of one build when it is named. */
  servers(of?: { readonly build: RefLike }): readonly MemoryServer[]
  /** The next `create` of a new server rejects with this error and starts nothing. Each call adds one. */
  failNextCreate(error: Error): void
}

/**
 * Servers outlive the fleet, as everywhere: a second `createFleet` over the same backend and the same store finds them.
 * `close` only ends the watches. Throws `invalid` for an option that makes no sense.
 */
export function memoryBackend(given: MemoryBackendOptions = {}): MemoryBackend {
  const options = resolveMemoryOptions(given)
  const listeners = listenersOf()
  const machines = machinesOf(options.nodes, options.portRange)
  const servers = new Map<string, ScriptedServer>()
  const failures: Error[] = []
  const around = { options, listeners, forget: (server: ScriptedServer) => void servers.delete(keyOf(server.ref)) }

  const startOrFind = (spec: InstanceSpec): ScriptedServer => {
    const known = servers.get(keyOf(spec.ref))
    if (known?.spec.uid === spec.uid) return known
    if (known) {
      throw new FleetError('conflict', `server ${keyOf(spec.ref)} still exists with uid ${known.spec.uid}`)
    }
    const failure = failures.shift()
    if (failure) throw failure
    const server = new ScriptedServer(spec, machines.place(spec.portsToExpose), around)
    servers.set(keyOf(spec.ref), server)
    server.start()
    return server
  }

  return {
    name: 'memory',
    capabilities: Object.freeze({ template: 'pod', agent: false }),
    defaultStore: Object.freeze({ kind: 'memory' }),

    async create(spec: InstanceSpec, { signal }: CallOptions = {}) {
      throwIfAborted(signal)
      const server = startOrFind(spec)
      const { clock, createLatencyMs } = options
      if (clock && createLatencyMs > 0) {
        await unlessAborted(new Promise<void>((resolve) => clock.after(createLatencyMs, resolve)), signal)
      }
      return server.instance
    },

    async destroy(ref: Ref, uid: string, { graceMs, signal }: DestroyOptions) {
      throwIfAborted(signal)
      const server = servers.get(keyOf(ref))
      if (server?.spec.uid === uid) await unlessAborted(server.destroy(graceMs), signal)
    },

    async list({ signal }: CallOptions = {}) {
      throwIfAborted(signal)
      return Array.from(servers.values(), (server) => server.instance)
    },

    watch(listener: BackendListener) {
      const stop = listeners.add(listener)
      for (const server of servers.values()) server.greet()
      return stop
    },

    async close() {
      listeners.clear()
    },

    server(ref) {
      const server = servers.get(keyOf(fullRef(ref)))
      if (server) return server
      const known = [...servers.keys()].slice(0, 10).join(', ')
      throw new FleetError('not-found', `there is no server ${keyOf(fullRef(ref))}; there are: ${known || 'none'}`)
    },

    servers(of) {
      const all = [...servers.values()]
      if (!of) return all
      const build = keyOf(fullRef(of.build))
      return all.filter((server) => keyOf(server.spec.build) === build)
    },

    failNextCreate(error) {
      failures.push(error)
    },
  }
}

function fullRef(ref: RefLike): Ref {
  return typeof ref === 'string'
    ? { namespace: 'default', name: ref }
    : { namespace: ref.namespace ?? 'default', name: ref.name }
}
