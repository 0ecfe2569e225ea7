/**
 * Backend: starts, destroys and lists game server instances. It knows nothing of states, sessions or scaling.
 * Implementations pass `backendConformance` of `gamekeeper/testing`.
 */
import type { Heartbeat, HeartbeatAnswer } from '../rules/game/heartbeat.js'
import type { PodTemplateSpec, PortPair, Ref } from '../rules/model/resources.js'
import type { TemplateSupport } from '../rules/validation/template.js'
import type { CallOptions } from './call-options.js'
import type { Elector } from './elector.js'
import type { Store } from './store.js'

/** Everything a backend needs to start an instance. The same ref and uid always mean the same instance. */
export interface InstanceSpec {
  readonly ref: Ref
  /** Distinguishes this instance from an earlier one of the same name. */
  readonly uid: string
  readonly build: Ref & { readonly uid: string; readonly buildID: string }
  readonly template: PodTemplateSpec
  /** Container ports to make reachable for players. */
  readonly portsToExpose: readonly number[]
  /** What the game server's SDK needs to send heartbeats. */
  readonly sdk: {
    /** `host:port` of the agent, as the instance reaches it. */
    readonly heartbeatEndpoint: string
    /** Part of the path of every heartbeat. Contains the server's secret token. */
    readonly sessionHostId: string
    readonly buildMetadata: Readonly<Record<string, string>>
  }
}

export interface Instance {
  readonly ref: Ref
  readonly uid: string
  /** `pending`: requested, but its process is not running yet. `exited`: its process ended; it is kept until destroyed. */
  readonly phase: 'pending' | 'running' | 'exited'
  /** Exit code of an exited instance, or 128 + n if signal n ended it. Absent if unknown. */
  readonly exitCode?: number
  /** True if it exited because its machine or container engine went down. Not counted as a crash. */
  readonly interrupted?: true
  /** True if it stays pending until someone fixes the problem in `reason`. */
  readonly blocked?: true
  /** Why it is still pending, or why it exited, as a sentence. */
  readonly reason?: string
  /** Where players connect. Absent until known. */
  readonly address?: string
  /** The machine it runs on. */
  readonly node?: string
  /** In the order of `portsToExpose`; empty until known. */
  readonly ports: readonly PortPair[]
}

/** What a server's record contains about its instance, including the last known `ports`. */
export type RecordedInstance = Pick<Instance, 'ref' | 'uid' | 'ports'>

export interface BackendListener {
  /** An instance is new or has changed. A hint: it may be late, repeated or lost. */
  changed(instance: Instance): void
  /** An instance no longer exists. A hint, like `changed`. */
  gone(ref: Ref, uid: string): void
  /** Events may have been lost: the engine calls `list` again. */
  resync(): void
  /** Passes on a heartbeat of an instance that does not send heartbeats over HTTP (see `BackendCapabilities.agent`). */
  heartbeat(sessionHostId: string, heartbeat: Heartbeat): HeartbeatAnswer
}

export interface PrepareOptions extends CallOptions {
  /** Called occasionally with a sentence about the progress. */
  readonly onProgress?: (message: string) => void
}

export interface LogsOptions extends CallOptions {
  /** True: continue with new lines until the instance has ended or the signal fires. Default false. */
  readonly follow?: boolean
  /** Start with at most this many of the last existing lines. Default: all. */
  readonly tail?: number
}

export interface AgentEndpointOptions extends CallOptions {
  /** The address on which the host app wants the agent to listen, if it has set one. */
  readonly host?: string | undefined
}

/** Where the agent listens, and where instances reach it. */
export interface AgentEndpoint {
  /** Address to listen on, as narrow as possible. */
  readonly host: string
  /** Host name or address in the heartbeat endpoint of instances. */
  readonly advertisedHost: string
}

export interface DestroyOptions extends CallOptions {
  /** Time in ms from SIGTERM, or the backend's equivalent, until the instance is killed. */
  readonly graceMs: number
}

/** What a backend supports. The engine behaves differently for each value. */
export interface BackendCapabilities {
  /** Which parts of a PodTemplateSpec are honoured; builds are validated against it. */
  readonly template: TemplateSupport
  /** True: instances send heartbeats over HTTP, so `createFleet` starts an agent. False: they come through the listener. */
  readonly agent: boolean
}

/** Where records are kept when the host app passes no store. */
export type DefaultStore =
  | { readonly kind: 'memory' }
  | { readonly kind: 'file'; readonly directory: string }
  | { readonly kind: 'own'; open(): Promise<Store> }

/** Every call must settle: the adapter sets timeouts for its own requests. The engine also gives up after `limits.callTimeoutMs`. */
export interface Backend {
  /** For logs and messages: `process`, `docker`… */
  readonly name: string
  readonly capabilities: BackendCapabilities
  readonly defaultStore: DefaultStore
  /** Used when the host app passes no elector. Needed if the default store is shared between hosts. */
  readonly defaultElector?: Elector
  /**
   * Starts an instance, or returns the existing one of this ref and uid. An instance that cannot run, for example because
   * its command does not exist, is returned as `exited` with a reason. Rejects if a retry may succeed: `ports-exhausted`,
   * `unavailable`.
   */
  create(spec: InstanceSpec, options?: CallOptions): Promise<Instance>
  /** Terminates an instance and removes it; resolves when it is gone. Succeeds if there is none with this ref and uid. */
  destroy(ref: Ref, uid: string, options: DestroyOptions): Promise<void>
  /** Every instance of this fleet, including exited ones that are not destroyed yet. The source of truth. */
  list(options?: CallOptions): Promise<readonly Instance[]>
  /** Reports changes until the returned function is called. Never throws. */
  watch(listener: BackendListener): () => void
  /** Closes watches and connections. Instances keep running. */
  close(): Promise<void>
  /**
   * Throws `invalid`, naming the field, if this backend cannot honour the build for a reason that `capabilities.template`
   * does not cover. Called before a build is created or changed.
   */
  check?(build: Pick<InstanceSpec, 'template' | 'portsToExpose'>): void
  /**
   * Fetches what the instances of a build share and what takes long to fetch, such as an image. Resolves when `create` can
   * proceed, immediately if nothing is missing. May take any amount of time while it makes progress. Rejects with
   * `unavailable` and the reason.
   */
  prepare?(build: Pick<InstanceSpec, 'build' | 'template'>, options?: PrepareOptions): Promise<void>
  /**
   * Protects an instance that players may be on from now until it ends, for example from node scale-downs. Called again until
   * it resolves. Succeeds if there is no instance with this ref and uid.
   */
  protect?(ref: Ref, uid: string, options?: CallOptions): Promise<void>
  /**
   * Looks up one instance by name. For a backend whose `list` can miss an existing instance, for example because someone
   * removed the label that it is listed by. Called before a recorded instance that is not listed is considered gone.
   * Resolves with undefined if there is none. Without this method the list is trusted.
   */
  find?(recorded: RecordedInstance, options?: CallOptions): Promise<Instance | undefined>
  /**
   * Where the agent must listen. For a backend whose instances cannot reach 127.0.0.1 of this host. Rejects with `invalid`
   * if the host app has to configure it.
   */
  agentEndpoint?(options?: AgentEndpointOptions): Promise<AgentEndpoint>
  /** Resolves if the backend works, at the least possible cost: called every few seconds. Default: `list`. */
  probe?(options?: CallOptions): Promise<void>
  /** Lines of an instance's stdout and stderr. The first read rejects with `not-found` if there are none. */
  logs?(ref: Ref, options?: LogsOptions): AsyncIterableIterator<string>
}
