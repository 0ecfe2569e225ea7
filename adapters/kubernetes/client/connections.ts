/**
 * Manages connections to the API server and the credentials for them. Credentials are refreshed regularly, because tokens
 * expire and are rotated; connections stay open until their certificates change, and between bursts of calls.
 */
import http from 'node:http'
import https from 'node:https'
import type { Clock } from '../../../src/contracts/clock.js'
import { FleetError, messageOf } from '../../../src/contracts/errors.js'
import type { KubeConfigLike } from './kube-config.js'

/** The server address to send a request to and the credentials to send with it. */
export interface Endpoint {
  readonly headers: Readonly<Record<string, string>>
  readonly request: typeof https.request
  readonly protocol: string
  readonly hostname: string
  readonly port: string
  /** Path of the server URL; usually empty. */
  readonly pathPrefix: string
  /** Opens at most the configured number of connections. */
  readonly agent: http.Agent
  /** For streams and for calls that must not wait for a free connection. */
  readonly unlimitedAgent: http.Agent
}

/** Service account tokens are rotated about once an hour, and the old token remains valid for a while. */
const credentialsMs = 60_000
const credentialsTimeoutMs = 20_000
/** Shorter than the idle timeout of common servers and load balancers. */
const idleMs = 30_000

const tlsFields = ['ca', 'cert', 'key', 'pfx', 'passphrase', 'servername', 'rejectUnauthorized'] as const
type TlsOptions = Pick<https.AgentOptions, (typeof tlsFields)[number]>

export class Transport {
  readonly #config: KubeConfigLike
  readonly #clock: Clock
  readonly #connections: number
  readonly #url: URL
  #endpoint: Endpoint | undefined
  #tls = ''
  #freshUntil = 0
  #refreshing: Promise<Endpoint> | undefined

  constructor(config: KubeConfigLike, clock: Clock, connections: number) {
    this.#config = config
    this.#clock = clock
    this.#connections = connections
    this.#url = serverUrl(config)
    if (this.#url.protocol === 'http:') allowPlainHttp(config)
  }

  /** Origin of the API server, used in messages. */
  get server(): string {
    return this.#url.origin
  }

  /**
   * Returns the current credentials, even while newer ones are being fetched. Rejects with `unavailable` if there are none.
   */
  endpoint(): Endpoint | Promise<Endpoint> {
    if (!this.#endpoint) return this.refresh()
    // If the refresh fails, the error appears when the server rejects the old credentials.
    if (this.#clock.elapsed() >= this.#freshUntil) this.refresh().catch(() => {})
    return this.#endpoint
  }

  /** Fetches new credentials; concurrent callers share the same attempt. */
  refresh(): Promise<Endpoint> {
    this.#refreshing ??= this.#load().finally(() => {
      this.#refreshing = undefined
    })
    return this.#refreshing
  }

  close(): void {
    this.#endpoint?.agent.destroy()
    this.#endpoint?.unlimitedAgent.destroy()
  }

  async #load(): Promise<Endpoint> {
    const options: https.RequestOptions = { headers: {} }
    try {
      await this.#withTimeout(this.#config.applyToHTTPSOptions(options))
    } catch (error) {
      const message = `cannot get credentials for the cluster at ${this.server}: ${messageOf(error)}`
      throw new FleetError('unavailable', message, { cause: error })
    }
    const tls: TlsOptions = Object.fromEntries(
      tlsFields.flatMap((name) => (options[name] === undefined ? [] : [[name, options[name]]])),
    )
    const text = JSON.stringify(tls)
    const agents = this.#endpoint && text === this.#tls ? this.#endpoint : this.#createAgents(options, tls)
    const isPlain = this.#url.protocol === 'http:'
    const endpoint: Endpoint = {
      headers: headersOf(options),
      request: isPlain ? http.request : https.request,
      protocol: this.#url.protocol,
      hostname: this.#url.hostname.replace(/^\[|\]$/g, ''),
      port: this.#url.port || (isPlain ? '80' : '443'),
      pathPrefix: this.#url.pathname.replace(/\/$/, ''),
      agent: agents.agent,
      unlimitedAgent: agents.unlimitedAgent,
    }
    this.#endpoint = endpoint
    this.#tls = text
    this.#freshUntil = this.#clock.elapsed() + credentialsMs
    return endpoint
  }

  /** Limits the time, because a credential plugin may hang or prompt for input. */
  async #withTimeout(work: Promise<void>): Promise<void> {
    let cancel = () => {}
    const timeout = new Promise<never>((_, reject) => {
      const error = new Error(`timed out after ${credentialsTimeoutMs / 1_000} s`)
      cancel = this.#clock.after(credentialsTimeoutMs, () => reject(error))
    })
    try {
      await Promise.race([work, timeout])
    } finally {
      cancel()
    }
  }

  #createAgents(options: https.RequestOptions, tls: TlsOptions): Pick<Endpoint, 'agent' | 'unlimitedAgent'> {
    // With a proxy, only the agent from @kubernetes/client-node can connect.
    const { agent } = options
    if (this.#config.getCurrentCluster()?.proxyUrl && agent instanceof http.Agent) {
      return { agent, unlimitedAgent: agent }
    }
    const kept = { keepAlive: true, timeout: idleMs, ...tls } satisfies https.AgentOptions
    const create = (maxSockets: number) =>
      this.#url.protocol === 'http:'
        ? new http.Agent({ keepAlive: true, timeout: idleMs, maxSockets })
        : new https.Agent({ ...kept, maxSockets })
    return { agent: create(this.#connections), unlimitedAgent: create(Infinity) }
  }
}

/**
 * @kubernetes/client-node accepts a server such as that of `kubectl proxy` only if the configuration says not to verify its certificate,
 * which it does not have.
 */
function allowPlainHttp(config: KubeConfigLike): void {
  const cluster = config.getCurrentCluster()
  if (cluster) Reflect.set(cluster, 'skipTLSVerify', true)
}

function serverUrl(config: KubeConfigLike): URL {
  const server = config.getCurrentCluster()?.server
  if (server === undefined) {
    throw new FleetError('invalid', `kubernetesBackend: context ${config.getCurrentContext()} names no cluster`)
  }
  try {
    return new URL(server)
  } catch (error) {
    throw new FleetError('invalid', `kubernetesBackend: cluster server ${server} is not a URL`, { cause: error })
  }
}

function headersOf({ headers = {}, auth }: https.RequestOptions): Readonly<Record<string, string>> {
  const all: Record<string, string> = {}
  for (const [name, value] of Object.entries(headers)) if (value !== undefined) all[name] = String(value)
  if (auth) all['Authorization'] = `Basic ${Buffer.from(auth).toString('base64')}`
  return all
}

interface WarmConnectionsDependencies {
  readonly clock: Clock
  /** Maximum number of connections to keep open. */
  readonly limit: number
  /** Sends a small request on each of `count` connections at once. Never rejects. */
  readonly use: (count: number) => Promise<void>
}

/** Less than the idle timeout of common servers, of load balancers, and of the transport. */
const intervalMs = 20_000
const periodMs = 600_000

/**
 * Keeps connections to the API server open, so that a burst of calls after a quiet time does not begin with TLS handshakes: as
 * many as urgent calls have used at once in the last ten to twenty minutes. Idle connections are used for a request of a few
 * bytes before either side closes them. Without urgent calls, there are no such requests.
 */
export class WarmConnections {
  readonly #deps: WarmConnectionsDependencies
  #running = 0
  /** The most calls that ran at once in the current period, and in the one before. */
  #peak = 0
  #lastPeak = 0
  #periodEndsAt: number
  #cancelTimer: (() => void) | undefined
  #isClosed = false

  constructor(deps: WarmConnectionsDependencies) {
    this.#deps = deps
    this.#periodEndsAt = deps.clock.elapsed() + periodMs
  }

  /** Call when an urgent call starts, and `ended` when it has ended. */
  started(): void {
    this.#startPeriod()
    this.#running++
    this.#peak = Math.max(this.#peak, this.#running)
    this.#schedule()
  }

  ended(): void {
    this.#running--
  }

  close(): void {
    this.#isClosed = true
    this.#cancelTimer?.()
  }

  #startPeriod(): void {
    const now = this.#deps.clock.elapsed()
    if (now < this.#periodEndsAt) return
    this.#lastPeak = now < this.#periodEndsAt + periodMs ? this.#peak : 0
    this.#peak = this.#running
    this.#periodEndsAt = now + periodMs
  }

  #schedule(): void {
    if (this.#isClosed) return
    this.#cancelTimer ??= this.#deps.clock.after(intervalMs, () => void this.#warm())
  }

  async #warm(): Promise<void> {
    const { limit, use } = this.#deps
    this.#startPeriod()
    const kept = Math.min(limit, Math.max(this.#peak, this.#lastPeak))
    if (kept > this.#running) await use(kept - this.#running)
    this.#cancelTimer = undefined
    if (kept > 0) this.#schedule()
  }
}
