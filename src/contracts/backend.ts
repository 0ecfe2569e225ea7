/**
 * Backend: what starts, ends and lists game server instances. It knows nothing of states, sessions or scaling.
 * Passes `backendConformance` of `gamekeeper/testing`.
 */
import type { CallOptions } from './call-options.js'
import type { Elector } from './elector.js'
import type { Heartbeat, HeartbeatAnswer } from '../rules/game/heartbeat.js'
import type { PodTemplateSpec, PortPair, Ref } from '../rules/model/resources.js'
import type { TemplateSupport } from '../rules/validation/template.js'
import type { Store } from './store.js'

/** All that a backend is told about an instance. The same spec again means the same instance. */
export interface InstanceSpec {
  readonly ref: Ref
  /** Tells this instance from an earlier one of the same name. */
  readonly uid: string
  readonly build: Ref & { readonly uid: string; readonly buildID: string }
  readonly template: PodTemplateSpec
  readonly portsToExpose: readonly number[]
  /** What the game server's SDK needs to speak to the fleet. */
  readonly sdk: {
    /** `host:port` of the agent, as the instance reaches it. */
    readonly heartbeatEndpoint: string
    /** Goes into the path of every heartbeat; holds the server's secret. */
    readonly sessionHostId: string
    readonly buildMetadata: Readonly<Record<string, string>>
  }
}

export interface Instance {
  readonly ref: Ref
  readonly uid: string
  /** `pending`: asked for, its process does not run yet. `exited`: ended, and kept until destroyed. */
  readonly phase: 'pending' | 'running' | 'exited'
  /** Of an exited instance: its code, 128 + n for signal n. Absent when nobody knows. */
  readonly exitCode?: number
  /** It went down with its engine or its machine, and nobody knows of a fault of its own: no crash. */
  readonly interrupted?: true
  /** Pending, and it stays so until somebody does something about what `reason` says. */
  readonly blocked?: true
  /** In words: why it is still pending, or why it exited. */
  readonly reason?: string
  /** Where players connect. Absent until known. */
  readonly address?: string
  readonly node?: string
  /** In the order of `portsToExpose`; empty until known. */
  readonly ports: readonly PortPair[]
}

/** What is on record of an instance; `ports` as they were last. */
export type KnownInstance = Pick<Instance, 'ref' | 'uid' | 'ports'>

export interface BackendListener {
  /** This instance is new or has changed. A hint: it may come late, twice, or not at all. */
  changed(instance: Instance): void
  /** No such instance any more. A hint as well. */
  gone(ref: Ref, uid: string): void
  /** Events may have been lost: list again. */
  resync(): void
  /** For instances that speak through their backend instead of over HTTP (the memory backend's). */
  heartbeat(sessionHostId: string, heartbeat: Heartbeat): HeartbeatAnswer
}

export interface PrepareOptions extends CallOptions {
  /** Hears now and then, in a sentence, how far it is. */
  readonly onProgress?: (message: string) => void
}

export interface LogsOptions extends CallOptions {
  /** True: goes on with what is written from now on, until the instance has ended or the signal fires. Default false. */
  readonly follow?: boolean
  /** Only so many of the last lines of what there is already. Default: all. */
  readonly tail?: number
}

/** Where the agent listens, and where instances find it. */
export interface AgentEndpoint {
  /** Address to listen on: no wider than it has to be. */
  readonly host: string
  /** Host that instances are told. */
  readonly advertisedHost: string
}

export interface DestroyOptions extends CallOptions {
  /** How long the instance may take to end by itself before it is killed. */
  readonly graceMs: number
}

/** Each flag says what the engine does differently. */
export interface BackendCapabilities {
  /** Which parts of a PodTemplateSpec are honoured; builds are validated against it. */
  readonly template: TemplateSupport
  /** True: instances speak HTTP, so `createFleet` starts an agent for them. False: they speak through the listener. */
  readonly agent: boolean
}

/** Where records are kept when the host names no store. */
export type DefaultStore =
  | { readonly kind: 'memory' }
  | { readonly kind: 'file'; readonly directory: string }
  | { readonly kind: 'own'; open(): Promise<Store> }

/** Every call settles: an adapter bounds its own calls. The engine gives up on one after `limits.callTimeoutMs` all the same. */
export interface Backend {
  /** For logs and messages: `process`, `docker`… */
  readonly name: string
  readonly capabilities: BackendCapabilities
  readonly defaultStore: DefaultStore
  /** Decides which host leads when the host names no elector: of a backend whose default store is shared. */
  readonly defaultElector?: Elector
  /**
   * Starts an instance, or returns the one that this ref and uid already have. An instance that cannot run (no such
   * command) is returned as `exited` with its reason. Rejects when it may work later: `ports-exhausted`, `unavailable`.
   */
  create(spec: InstanceSpec, options?: CallOptions): Promise<Instance>
  /** Ends an instance and forgets it; resolves when it is gone. An absent one, or one of another uid, is success. */
  destroy(ref: Ref, uid: string, options: DestroyOptions): Promise<void>
  /** Every instance of this fleet, exited ones included until destroyed. The only truth. */
  list(options?: CallOptions): Promise<readonly Instance[]>
  /** Tells the listener of changes until the returned function is called. Never throws. */
  watch(listener: BackendListener): () => void
  /** Lets go of watches and connections. Instances stay as they are. */
  close(): Promise<void>
  /**
   * Says what of a build cannot be honoured here beyond what `capabilities.template` tells: throws `invalid`, naming the
   * field. Asked before a build is created or changed.
   */
  check?(build: Pick<InstanceSpec, 'template' | 'portsToExpose'>): void
  /**
   * Fetches what takes long and is needed once for many instances, such as an image. Resolves when `create` can go
   * ahead, at once if all is there. Takes as long as it moves; rejects with `unavailable` and the reason when it fails.
   */
  prepare?(build: Pick<InstanceSpec, 'build' | 'template'>, options?: PrepareOptions): Promise<void>
  /**
   * Players may be on this instance from now on and until its end: whatever clears machines must spare it. Called again until
   * it resolves; an absent instance, or one of another uid, is success.
   */
  protect?(ref: Ref, uid: string, options?: CallOptions): Promise<void>
  /**
   * Looks for one instance by its name. For a backend whose list may lack one that is there, as when somebody has taken
   * off what it is listed by: asked before one on record that is not listed is taken for gone. Undefined: there is none.
   * Default: the list is believed.
   */
  find?(known: KnownInstance, options?: CallOptions): Promise<Instance | undefined>
  /**
   * For instances that cannot reach 127.0.0.1 of this host. `asked.host` is where the agent's owner wants it to listen, if
   * they have said so. Rejects with `invalid` when only they can tell.
   */
  agentEndpoint?(asked: { readonly host?: string | undefined }, options?: CallOptions): Promise<AgentEndpoint>
  /** Resolves when it can be relied on now, at the least cost: asked every few seconds. Default: `list`. */
  probe?(options?: CallOptions): Promise<void>
  /** The lines that an instance writes to stdout and stderr. Throws `not-found` on the first read when there are none kept. */
  logs?(ref: Ref, options?: LogsOptions): AsyncIterableIterator<string>
}
