/** The servers of the memory backend that have not been destroyed, oldest first. */
import type { InstanceSpec } from '../../src/contracts/backend.js'
import { FleetError } from '../../src/contracts/errors.js'
import { keyOf, type Ref, type RefLike } from '../../src/rules/model/resources.js'
import type { DeferredListeners } from './deferred-listeners.js'
import { Nodes } from './nodes.js'
import type { ResolvedMemoryOptions } from './options.js'
import { ScriptedServer, type ScriptedServerDependencies } from './scripted-server.js'

export class MemoryServers {
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
