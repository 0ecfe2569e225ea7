/**
 * Backend: starts, destroys and lists game server instances. It knows nothing about states, sessions or scaling.
 * Implementations must pass `backendConformance` from `gamekeeper/testing`.
 */
import type { Heartbeat, HeartbeatAnswer, ParkedHeartbeat } from '../rules/game/heartbeat.js'
import type { PodTemplateSpec, PortPair, Ref } from '../rules/model/resources.js'
import type { TemplateSupport } from '../rules/validation/pod-template.js'
import type { CallOptions } from './call-options.js'
import type { Clock } from './clock.js'
import type { Elector } from './elector.js'
import type { Store } from './store.js'

/** Everything a backend needs to start an instance. The same ref and uid always mean the same instance. */
export interface InstanceSpec {
  readonly ref: Ref
  /** Distinguishes this instance from an earlier one with the same name. */
  readonly uid: string
  readonly build: Ref & { readonly uid: string; readonly buildID: string }
  readonly template: PodTemplateSpec
  /** Container ports to make reachable for players. */
  readonly portsToExpose: readonly number[]
  /** If true, the instance is created as if `protect` had been called for it. Default: false. */
  readonly isProtected?: boolean
  /** What the game server's SDK needs to send heartbeats. */
  readonly sdk: {
    /** `host:port` at which the instance reaches the agent. */
    readonly heartbeatEndpoint: string
    /** Part of the path in every heartbeat request. Contains the server's secret token. */
    readonly sessionHostId: string
    readonly buildMetadata: Readonly<Record<string, string>>
  }
}

/** What an instance itself tells of the server that it was created for. Equal to the parts of its `InstanceSpec`. */
export interface InstanceOrigin {
  readonly build: Ref & { readonly uid: string }
  readonly sessionHostId: string
}

export interface Instance {
  readonly ref: Ref
  readonly uid: string
  /**
   * `pending`: requested, but its process is not running yet. `exited`: its process has ended; the instance is kept until
   * destroyed.
   */
  readonly phase: 'pending' | 'running' | 'exited'
  /** Exit code of an exited instance, or 128 + n if it was killed by signal n. Absent if unknown. */
  readonly exitCode?: number
  /**
   * True if the instance exited, or can never start, because of its machine: for example because its container engine went
   * down, or because another program on the machine holds one of its ports. Such an exit is not counted as a crash, and the
   * engine replaces the server without waiting. The backend must ensure that the replacement does not fail for the same
   * reason, for example by avoiding that port.
   */
  readonly interrupted?: true
  /** True if the instance stays pending until someone fixes the problem given in `reason`. */
  readonly blocked?: true
  /** A sentence saying why the instance is still pending, or why it exited. */
  readonly reason?: string
  /** Address that players connect to. Absent until known. */
  readonly address?: string
  /**
   * Where this host reaches the instance's ports: a host, and by which of the two ports. Absent if it reaches them as players do. For games
   * without an SDK, which are probed.
   */
  readonly inside?: { readonly host: string; readonly ports: 'container' | 'public' }
  /** Name of the machine that the instance runs on. */
  readonly node?: string
  /** The exposed ports, in the same order as `portsToExpose`. Empty until known. */
  readonly ports: readonly PortPair[]
  /**
   * If given, a server whose record is missing from the store, for example because an older copy of the store was restored, gets a
   * new record once its game reports a match. Otherwise the match goes on, but the server is not shown.
   */
  readonly origin?: InstanceOrigin
}

/** The part of a server's record that describes its instance, including the last known `ports`. */
export type RecordedInstance = Pick<Instance, 'ref' | 'uid' | 'ports'>

export interface BackendListener {
  /** An instance was created or has changed. Only a hint: the call may be late, repeated or lost. */
  changed(instance: Instance): void
  /** An instance no longer exists. Only a hint, like `changed`. */
  gone(ref: Ref, uid: string): void
  /** Events may have been lost. The engine responds by calling `list` again. */
  resync(): void
  /**
   * Reports every node that is due for maintenance, with the wall time in ms at which it begins. Replaces the previous report.
   * If a node was already in an earlier report, to this host or another, the time in that report is kept.
   */
  maintenance?(nodes: ReadonlyMap<string, number>): void
  /** Delivers a heartbeat from an instance that does not send heartbeats over HTTP (see `BackendCapabilities.agent`). */
  heartbeat(sessionHostId: string, heartbeat: Heartbeat): HeartbeatAnswer
  /** See `Fleet.parkHeartbeat`. */
  parkHeartbeat?(sessionHostId: string, parked: ParkedHeartbeat): (() => void) | undefined
}

export interface PrepareOptions extends CallOptions {
  /**
   * Fires when what was prepared is no longer needed, also if that is long after the call has resolved: the build has another template,
   * was deleted, or this host no longer leads. A backend that prepares machines as they join may go on until then.
   */
  readonly signal?: AbortSignal
  /** Called occasionally with a sentence that describes the progress. */
  readonly onProgress?: (message: string) => void
}

export interface LogsOptions extends CallOptions {
  /** If true, also yields new lines as they are written, until the instance has ended or the signal fires. Default: false. */
  readonly follow?: boolean
  /** Maximum number of existing lines to start with, counted from the end. Default: all. */
  readonly tail?: number
  /**
   * If true, each line begins with when it was written, an RFC 3339 time, and where to, `stdout` or `stderr`, with a blank after each. `-` stands
   * for what the system does not know. Default: false.
   */
  readonly origin?: boolean
}

export interface ExecOptions extends CallOptions {
  /**
   * Ends the command, if the system can do that: the call then rejects with `aborted`. If it cannot, the call goes on, and settles once the
   * command has ended, so that the caller knows how many are left.
   */
  readonly signal?: AbortSignal
  /** Lines for its standard input, which may stay open afterwards. Default: it has none. */
  readonly input?: string
  /** Call once the system has started the command: what fails before that says nothing about the game. */
  readonly onStarted?: () => void
}

/** How a command has ended. */
export interface ExecResult {
  /** 126 or 127 if it could not be run, for example because there is no such program; 128 + n if signal n has ended it. */
  readonly exitCode: number
  /** The end of what it has printed on stdout and stderr: at most 512 bytes. Hostile input. */
  readonly output: string
}

export interface AgentEndpointOptions extends CallOptions {
  /** The listen address that the host app has configured for the agent, if any. */
  readonly host?: string | undefined
}

/** Where the agent listens, and where instances reach it. */
export interface AgentEndpoint {
  /** Address to listen on. Should be reachable by as few machines as possible. */
  readonly host: string
  /** Host name or address that instances use as their heartbeat endpoint. */
  readonly advertisedHost: string
}

/** What an instance uses now, as the system that runs it counts. */
export interface InstanceUsage {
  readonly memoryBytes: number
  /** CPU time since the instance began, in seconds. Absent if the system only says `cpuCores`. */
  readonly cpuSeconds?: number
  /** CPU cores in use, averaged over the last seconds. */
  readonly cpuCores?: number
}

export interface DestroyOptions extends CallOptions {
  /**
   * Time in ms from the termination signal until the instance is killed. The backend sends the signal at once: SIGTERM, or its
   * equivalent. 0: the instance is killed at once.
   */
  readonly graceMs: number
  /** True if people may want to read the instance's log after its end: it had a session, or has crashed. Default: false. */
  readonly keepLog?: boolean
}

/** What a backend supports. The engine adapts to these values. */
export interface BackendCapabilities {
  /** Which parts of a PodTemplateSpec the backend honours. Builds are validated against this. */
  readonly template: TemplateSupport
  /**
   * True if instances send heartbeats over HTTP, so that `createFleet` starts an agent. If false, the backend delivers
   * heartbeats through its listener.
   */
  readonly agent: boolean
  /**
   * False if instances do not send heartbeats at regular intervals. They then get their termination signal without `Terminate`
   * in a heartbeat answer before it. Default: true.
   */
  readonly regularHeartbeats?: boolean
  /**
   * Set if instances end with the host, for development. The fleet then shows what they print, ends them after at most a second of
   * grace, and lets them pause in a debugger. Default: they outlive the host.
   */
  readonly development?: { readonly output: GameOutput }
}

/** Receives each line that a game server prints. `server` is its name. */
export type GameOutput = (server: string, line: string) => void

/** The longest grace period of servers that end with their host, in ms. */
export const developmentGraceMs = 1_000

/** What separates games from the host and from each other, and which limits hold. For people: the wording may change. */
export interface IsolationStatus {
  /** For the process backend its `isolation`. */
  readonly mode: string
  /** How memory is limited, such as `per server, by cgroup v2`, or why it is not. */
  readonly memory: string
  /** The same for processes and threads. */
  readonly pids: string
}

/** Where records are kept when the host app passes no store. */
export type DefaultStore =
  | { readonly kind: 'memory' }
  | {
      readonly kind: 'file'
      readonly directory: string
      /** Whether the store begins without records each time, because no server outlives the host. Default: false. */
      readonly startsEmpty?: boolean
      /** How long to wait for another process that has it open. Default: 0. */
      readonly waitForDirectoryMs?: number
    }
  | { readonly kind: 'own'; open(): Promise<Store> }

/**
 * Every call must settle, so an adapter must set timeouts for its own requests. The engine also gives up after
 * `limits.callTimeoutMs`.
 */
export interface Backend {
  /** Name used in logs and messages: `process`, `docker`… */
  readonly name: string
  readonly capabilities: BackendCapabilities
  readonly defaultStore: DefaultStore
  /** The clock by which its servers live, if that is another than the system's. The fleet must have the same. */
  readonly clock?: Clock | undefined
  /** For a backend whose isolation and limits depend on the machine. `Fleet.health` shows it. */
  readonly isolation?: IsolationStatus
  /** Used when the host app passes no elector. Required if the default store is shared between hosts. */
  readonly defaultElector?: Elector
  /**
   * Starts an instance, or returns the existing one with this ref and uid. An instance that cannot run, for example because
   * its command does not exist, is returned as `exited` with a reason. Rejects with `ports-exhausted` or `unavailable` if a
   * retry may succeed.
   */
  create(spec: InstanceSpec, options?: CallOptions): Promise<Instance>
  /**
   * Terminates an instance and removes it. Resolves when the instance no longer exists; succeeds if there is none with this
   * ref and uid.
   */
  destroy(ref: Ref, uid: string, options: DestroyOptions): Promise<void>
  /** Lists every instance of this fleet, including exited ones that are not destroyed yet. This list is the source of truth. */
  list(options?: CallOptions): Promise<readonly Instance[]>
  /** Reports changes until the returned function is called. Never throws. */
  watch(listener: BackendListener): () => void
  /**
   * Closes watches and connections. Instances keep running, except those that `destroy` was called for: by the time this
   * resolves, each of them has received its termination signal, or its deletion has been requested.
   */
  close(): Promise<void>
  /**
   * Throws `invalid`, naming the field, if this backend cannot honour the build for a reason that `capabilities.template`
   * does not cover. Called before a build is created or changed.
   */
  check?(build: Pick<InstanceSpec, 'template' | 'portsToExpose'>): void
  /**
   * Fetches what all instances of a build need and what takes long to fetch, such as an image. Resolves when `create` can
   * proceed, which is immediately if nothing is missing. May take any amount of time as long as it makes progress. On
   * failure, rejects with `unavailable` and the reason.
   */
  prepare?(build: Pick<InstanceSpec, 'build' | 'template'>, options?: PrepareOptions): Promise<void>
  /**
   * Protects an instance that may have players from being evicted, for example by a node scale-down, until it ends. The
   * engine retries the call until it succeeds. It succeeds once the backend has taken the task over: the backend then completes
   * it within seconds, unless its host stops; the next leader calls this for every instance with a session. Succeeds if there is no instance with this ref and uid.
   */
  protect?(ref: Ref, uid: string, options?: CallOptions): Promise<void>
  /**
   * Takes `protect` back, because the game has ended its match and waits for the next one. May be called for an instance that is not
   * protected. Retried like `protect`. Without this method, an instance stays protected until it ends.
   */
  unprotect?(ref: Ref, uid: string, options?: CallOptions): Promise<void>
  /**
   * Looks up one instance by name. Implemented by a backend whose `list` can miss an existing instance, for example because
   * someone removed the label that `list` selects by. Called before the engine concludes that an unlisted instance no longer
   * exists. Resolves with undefined if there is no such instance. Without this method, the engine trusts the list.
   */
  find?(recorded: RecordedInstance, options?: CallOptions): Promise<Instance | undefined>
  /**
   * Determines where the agent must listen. Implemented by a backend whose instances cannot reach this host's 127.0.0.1.
   * Rejects with `invalid` if the host app must configure the address.
   */
  agentEndpoint?(options?: AgentEndpointOptions): Promise<AgentEndpoint>
  /** Resolves if the backend works. Called every few seconds, so it should be as cheap as possible. Default: `list`. */
  probe?(options?: CallOptions): Promise<void>
  /**
   * Yields the lines of an instance's stdout and stderr, for a time also after it has been destroyed with `keepLog`. The first read
   * rejects with `not-found` if there are no logs for it.
   */
  logs?(ref: Ref, options?: LogsOptions): AsyncIterableIterator<string>
  /**
   * Writes a line, with its line break, to the standard input of an instance whose template has `stdin: true`. Resolves once
   * the system that runs the instance has taken all of it. Rejects with `not-found` if there is no such instance, and with
   * `no-stdin` if it takes none now, in which case nothing was written. Writes at the same time do not mix their lines.
   */
  writeStdin?(ref: Ref, line: string, options?: CallOptions): Promise<void>
  /**
   * Runs a command, without a shell, where an instance runs: with the files, environment, working directory, user, isolation and limits
   * that its game was started with. Resolves once the command has ended. Rejects with `not-found` if there is no such instance or it does not
   * run, with `unavailable` if the system cannot be asked or the command is lost, and with `invalid` once it has printed more than 1 MiB,
   * from where on it is not followed. For games without an SDK.
   */
  exec?(ref: Ref, command: readonly string[], options?: ExecOptions): Promise<ExecResult>
  /**
   * Measures what a running instance uses. Rejects with `not-found` if there is no such instance or it does not run, and with `unsupported` if
   * the system does not measure it, for example a cluster without metrics.
   */
  usage?(ref: Ref, options?: CallOptions): Promise<InstanceUsage>
}
