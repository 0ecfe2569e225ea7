/**
 * A backend for unit tests whose game servers exist only in memory. Starts no processes, opens no sockets, and uses only the
 * given clock.
 */
import type { Backend } from '../../src/contracts/backend.js'
import { systemClock } from '../../src/contracts/clock.js'
import { throwIfAborted } from '../../src/contracts/errors.js'
import type { RefLike } from '../../src/rules/model/resources.js'
import { unlessAborted } from '../../src/util/signals.js'
import { DeferredListeners } from './deferred-listeners.js'
import type { MemoryServer } from './memory-server.js'
import { MemoryServers } from './memory-servers.js'
import { type MemoryBackendOptions, resolveMemoryOptions } from './options.js'

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
