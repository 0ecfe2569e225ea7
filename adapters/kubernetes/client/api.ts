/**
 * The Kubernetes API client. Sends HTTP requests with a KubeConfig's credentials over keep-alive connections, applies a
 * timeout to each call and a rate limit to all of them, and reports failures as FleetErrors. Independent of what the calls
 * are used for.
 */
import type { Clock } from '../../../src/contracts/clock.js'
import { FleetError, throwIfAborted } from '../../../src/contracts/errors.js'
import { CancelScope } from '../../shared/cancel-scope.js'
import type { ApiCall, ApiStream } from './api-call.js'
import { failedCall, parseApiError } from './api-errors.js'
import { CallLimits, closed } from './call-limits.js'
import { HttpExchange } from './http-exchange.js'
import type { KubeConfigLike } from './kube-config.js'
import { isKubeObject, type KubeObject } from './kube-objects.js'
import { listPages, type ListResult } from './list-pages.js'
import { RateLimiter } from './rate-limiter.js'
import { Transport } from './connections/transport.js'
import { WarmConnections } from './connections/warm-connections.js'
import type { WriteFence } from './write-fence.js'
import { isPromise } from '../../../src/rules/model/realms.js'

export interface KubernetesApiOptions {
  readonly config: KubeConfigLike
  readonly clock: Clock
  /** Maximum number of calls per second; unlimited calls are not counted. */
  readonly requestsPerSecond: number
  /** Maximum number of concurrent calls, each on its own keep-alive connection. */
  readonly connections: number
  /** Default timeout of a call, including its time in the queue. */
  readonly callTimeoutMs: number
  /** Checked before each write. Default: writes are always allowed. */
  readonly fence?: WriteFence
}

/** What the store's collections use of it. */
export type ObjectApi = Pick<
  KubernetesApi,
  'closed' | 'connections' | 'list' | 'object' | 'pause' | 'priorityPauseMs' | 'request'
>

/** The response, or the delay before a retry if the server was busy and did not execute the call. */
type Outcome = { readonly json: unknown } | { readonly retryAfterMs: number }

export class KubernetesApi {
  readonly #clock: Clock
  readonly #transport: Transport
  readonly #rateLimiter: RateLimiter
  readonly #warmConnections: WarmConnections
  /** Cancels calls, streams and pauses when the client closes. */
  readonly #scope = new CancelScope()
  readonly #limits: CallLimits
  readonly #http: HttpExchange
  /** Origin of the API server, used in messages. */
  readonly server: string
  /** Namespace from the kubeconfig's context or the pod's service account. */
  readonly namespace: string | undefined
  /** How many calls run at a time. */
  readonly connections: number

  constructor(options: KubernetesApiOptions) {
    const { config, clock, requestsPerSecond, connections, callTimeoutMs, fence } = options
    this.#clock = clock
    this.connections = connections
    this.#transport = new Transport(config, clock, connections)
    this.#rateLimiter = new RateLimiter(clock, { perSecond: requestsPerSecond, maxConcurrent: connections })
    const use = (count: number) => this.#useConnections(count)
    this.#warmConnections = new WarmConnections({ clock, limit: connections, use })
    this.server = this.#transport.server
    const shared = { scope: this.#scope, server: this.server }
    this.#limits = new CallLimits({ ...shared, clock, timeoutMs: callTimeoutMs })
    this.#http = new HttpExchange({ ...shared, limits: this.#limits, fence })
    this.namespace = config.getContextObject(config.getCurrentContext())?.namespace
  }

  get closed(): boolean {
    return this.#scope.closed
  }

  /** How long no call with priority for which somebody waits has been running or waiting, in ms. */
  get priorityPauseMs(): number {
    return this.#rateLimiter.priorityPauseMs
  }

  /**
   * Resolves with the response's JSON. Rejects with a FleetError; `statusOf` and `reasonOf` return the API server's status
   * and reason for it.
   */
  async request(call: ApiCall): Promise<unknown> {
    if (this.#scope.closed) throw closed()
    throwIfAborted(call.signal)
    const endsAt = this.#clock.elapsed() + this.#limits.timeoutMs(call)
    for (;;) {
      if (!call.unlimited && !this.#rateLimiter.tryStart(call)) await this.#queue(call, endsAt)
      let outcome: Outcome
      if (call.priority) this.#warmConnections.started()
      try {
        outcome = await this.#exchange(call, endsAt)
      } finally {
        if (!call.unlimited) this.#rateLimiter.done(call)
        if (call.priority) this.#warmConnections.ended()
      }
      if ('json' in outcome) return outcome.json
      // Other calls can use the slot during the pause.
      await this.pause(outcome.retryAfterMs, call.signal)
      if (this.#scope.closed) throw closed()
      throwIfAborted(call.signal)
    }
  }

  /** `request`, for calls that return a single object. */
  async object(call: ApiCall): Promise<KubeObject> {
    const response = await this.request(call)
    if (isKubeObject(response)) return response
    throw this.#unexpected(call)
  }

  /** `request`, for calls that return a list. The timeout applies to each page. */
  list(call: ApiCall): Promise<ListResult> {
    const request = (page: ApiCall) => this.request({ timeoutMs: listTimeoutMs, ...page })
    return listPages(call, request, () => this.#unexpected(call))
  }

  /** Resolves with an open stream. The call's timeout applies only until the stream opens. */
  async open(call: ApiCall): Promise<ApiStream> {
    if (this.#scope.closed) throw closed()
    throwIfAborted(call.signal)
    const timeoutMs = this.#limits.timeoutMs(call)
    for (let attempt = 1; ; attempt++) {
      const current = this.#transport.endpoint()
      const endpoint = isPromise(current) ? await this.#waitWithin(call, timeoutMs, current) : current
      const opened = await this.#http.open({ ...call, unlimited: true }, endpoint)
      if ('body' in opened) return opened
      if (opened.status === 401 && attempt === 1) await this.#waitWithin(call, timeoutMs, this.#transport.refresh())
      else throw failedCall(parseApiError(opened.status, opened.text), call.what, this.server)
    }
  }

  /** Rejects every call in progress and ends every stream. */
  close(): void {
    this.#warmConnections.close()
    this.#scope.close()
    this.#transport.close()
  }

  /** Resolves after `ms`, or immediately when the signal fires or the client closes; the caller must check which happened. */
  pause(ms: number, signal?: AbortSignal): Promise<void> {
    return this.#scope.sleep(this.#clock, ms, signal)
  }

  /** Resolves when the call may start; the caller must then call the rate limiter's `done`. */
  #queue(call: ApiCall, endsAt: number): Promise<void> {
    return new Promise((resolve, reject) => {
      let dequeue = () => {}
      const settle = this.#limits.bind(call, endsAt - this.#clock.elapsed(), (error) => {
        dequeue()
        reject(error)
      })
      dequeue = this.#rateLimiter.enqueue(call, () => settle(resolve))
    })
  }

  /** Waits for shared work within the call's limits. If the call gives up, the work continues for other callers. */
  #waitWithin<T>(call: ApiCall, remainingMs: number, work: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const settle = this.#limits.bind(call, remainingMs, reject)
      work.then(
        (value) => settle(() => resolve(value)),
        (error: Error) => settle(() => reject(error)),
      )
    })
  }

  async #exchange(call: ApiCall, endsAt: number): Promise<Outcome> {
    const remainingMs = () => endsAt - this.#clock.elapsed()
    for (let isRefreshed = false; ;) {
      const current = this.#transport.endpoint()
      const endpoint = isPromise(current) ? await this.#waitWithin(call, remainingMs(), current) : current
      const { status, text, retryAfterMs } = await this.#http.send(call, endpoint, remainingMs())
      if (status >= 200 && status < 300) return { json: this.#parse(call, text) }
      if (status === 401 && !isRefreshed) {
        isRefreshed = true
        await this.#waitWithin(call, remainingMs(), this.#transport.refresh())
        continue
      }
      if (status === 429 && retryAfterMs < remainingMs() && !call.signal?.aborted) return { retryAfterMs }
      throw failedCall(parseApiError(status, text), call.what, this.server)
    }
  }

  /** The version can be read without any rights, and any response keeps a connection open. */
  async #useConnections(count: number): Promise<void> {
    const call: ApiCall = { what: 'keep connections open', method: 'GET', path: '/version', timeoutMs: warmTimeoutMs }
    try {
      const endpoint = await this.#transport.endpoint()
      await Promise.allSettled(Array.from({ length: count }, () => this.#http.send(call, endpoint, warmTimeoutMs)))
    } catch {
      // Without credentials, the next call reports the failure.
    }
  }

  #parse(call: ApiCall, text: string): unknown {
    try {
      return text === '' ? undefined : JSON.parse(text)
    } catch (error) {
      throw this.#unexpected(call, error)
    }
  }

  #unexpected({ what }: ApiCall, cause?: unknown): FleetError {
    const message = `failed to ${what}: unexpected response from the Kubernetes API at ${this.server}`
    return new FleetError('unavailable', message, { cause })
  }
}

const warmTimeoutMs = 5_000

/** A large list takes a long time to serialize and transfer. */
const listTimeoutMs = 60_000
