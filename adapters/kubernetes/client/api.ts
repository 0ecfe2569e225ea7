/**
 * The Kubernetes API client. Sends HTTP requests with a KubeConfig's credentials over keep-alive connections, applies a
 * timeout to each call and a rate limit to all of them, and reports failures as FleetErrors. Independent of what the calls
 * are used for.
 */
import type { ClientRequest, IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import type { Clock } from '../../../src/contracts/clock.js'
import { FleetError, throwIfAborted } from '../../../src/contracts/errors.js'
import type { Logger } from '../../../src/contracts/logger.js'
import { isPromise } from '../../../src/rules/model/values.js'
import { isObject } from '../../../src/rules/validation/problem.js'
import { stringAt } from '../../../src/rules/validation/pod-template.js'
import { CancelScope } from '../../shared/cancel-scope.js'
import { failedCall, parseApiError, statusOf, unreachable } from './api-errors.js'
import { type Endpoint, Transport, WarmConnections } from './connections.js'
import type { KubeConfigLike } from './kube-config.js'
import { isKubeObject, type KubeMeta, type KubeObject } from './kube-objects.js'
import { type LimitedCall, RateLimiter } from './rate-limiter.js'
import type { WriteFence } from './write-fence.js'

export interface ApiCall extends LimitedCall {
  /** The operation, as named in messages: `create pod arena-x2x4q`. */
  readonly what: string
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  /** Built with `pathOf`. */
  readonly path: string
  /** A list is a parameter that is given several times. */
  readonly query?: Readonly<Record<string, string | number | boolean | readonly string[] | undefined>>
  /** Sent as JSON. */
  readonly body?: object
  /** Content type of a PATCH. Default `application/merge-patch+json`. */
  readonly contentType?: string
  /** Default: the API's `callTimeoutMs`. */
  readonly timeoutMs?: number
  /** Bypasses the rate limiter and the connection limit; used for leases and watches. */
  readonly unlimited?: boolean
  /** Sends the write even if this host is not the leader. */
  readonly unfenced?: boolean
  /** Further headers, which take precedence over the usual ones. */
  readonly headers?: Readonly<Record<string, string>>
  readonly signal?: AbortSignal | undefined
}

export interface ApiStream {
  /** Ends when the server ends the response; fails if the connection breaks. */
  readonly body: IncomingMessage
  /** The connection, if the server has switched to another protocol. */
  readonly socket?: Duplex
  stop(): void
}

/** A complete response. */
interface ApiResponse {
  readonly status: number
  readonly text: string
  readonly retryAfterMs: number
}

interface KubernetesApiOptions {
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

/** What most parts of this adapter work with. */
export interface ApiContext {
  readonly api: KubernetesApi
  readonly clock: Clock
  readonly logger: Logger
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
  readonly #fence: WriteFence | undefined
  readonly #callTimeoutMs: number
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
    this.#fence = fence
    this.#callTimeoutMs = callTimeoutMs
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
    const endsAt = this.#clock.elapsed() + this.#timeoutMs(call)
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
    const timeoutMs = this.#timeoutMs(call)
    for (let attempt = 1; ; attempt++) {
      const current = this.#transport.endpoint()
      const endpoint = isPromise(current) ? await this.#waitWithin(call, timeoutMs, current) : current
      const opened = await this.#openStream({ ...call, unlimited: true }, endpoint)
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
      const settle = this.#bind(call, endsAt - this.#clock.elapsed(), (error) => {
        dequeue()
        reject(error)
      })
      dequeue = this.#rateLimiter.enqueue(call, () => settle(resolve))
    })
  }

  /** Waits for shared work within the call's limits. If the call gives up, the work continues for other callers. */
  #waitWithin<T>(call: ApiCall, remainingMs: number, work: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const settle = this.#bind(call, remainingMs, reject)
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
      const { status, text, retryAfterMs } = await this.#send(call, endpoint, remainingMs())
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
      await Promise.allSettled(Array.from({ length: count }, () => this.#send(call, endpoint, warmTimeoutMs)))
    } catch {
      // Without credentials, the next call reports the failure.
    }
  }

  /**
   * Sends one HTTP request and receives its response. Settles within the call's limits even if the connection fails or hangs, and never sends a
   * write that the fence forbids.
   */
  #send(call: ApiCall, endpoint: Endpoint, remainingMs: number): Promise<ApiResponse> {
    const forbidden = this.#forbidden(call)
    if (forbidden) return Promise.reject(forbidden)
    return this.#transfer<ApiResponse>(call, endpoint, remainingMs, () => false)
  }

  /** Opens a stream. The call's timeout applies until the response headers arrive. An error response is read completely. */
  #openStream(call: ApiCall, endpoint: Endpoint): Promise<ApiStream | ApiResponse> {
    const take: TakeStream<ApiStream | ApiResponse> = (response, request, resolve, socket) => {
      if (response.statusCode !== 200 && !socket) return false
      const stop = () => void (socket ?? request).destroy()
      const stream = socket ?? response
      resolve({ body: response, ...(socket && { socket }), stop })
      this.#scope.add(stop)
      stream.once('close', () => this.#scope.delete(stop))
      // The stream's reader receives the error; this listener prevents an unhandled error if the stream is abandoned.
      stream.on('error', () => {})
      return true
    }
    return this.#transfer(call, endpoint, this.#timeoutMs(call), take)
  }

  #transfer<T>(
    call: ApiCall,
    endpoint: Endpoint,
    remainingMs: number,
    takeStream: TakeStream<T>,
  ): Promise<T | ApiResponse> {
    return new Promise((resolve, reject) => {
      const request = this.#start(call, endpoint)
      const settle = this.#bind(call, remainingMs, (error) => {
        // Destroying the request emits an error, which by then has no other listener.
        request.on('error', () => {})
        reject(error)
        request.destroy()
      })
      const fail = (error: Error) =>
        settle(() => reject(FleetError.is(error) ? error : unreachable(error, call.what, this.server)))
      const succeed = (result: T | ApiResponse) => settle(() => resolve(result))
      request.on('error', fail)
      request.once('upgrade', (response, socket, head) => {
        socket.unshift(head)
        takeStream(response, request, succeed, socket)
      })
      request.once('response', (response) => {
        if (takeStream(response, request, succeed)) return
        const chunks: Buffer[] = []
        response.on('data', (chunk: Buffer) => chunks.push(chunk))
        response.once('error', fail)
        response.once('end', () => succeed(responseOf(response, chunks)))
      })
    })
  }

  #forbidden({ method, unfenced }: ApiCall): FleetError | undefined {
    return method === 'GET' || unfenced ? undefined : this.#fence?.check()
  }

  #start(call: ApiCall, endpoint: Endpoint): ClientRequest {
    const { method, path, query, body, contentType, unlimited, unfenced } = call
    const text = body === undefined ? undefined : JSON.stringify(body)
    const headers: Record<string, string | number> = {
      ...endpoint.headers,
      accept: 'application/json',
      ...call.headers,
    }
    if (text !== undefined) {
      headers['content-type'] = contentType ?? (method === 'PATCH' ? mergePatch : 'application/json')
      headers['content-length'] = Buffer.byteLength(text)
    }
    const request = endpoint.request({
      protocol: endpoint.protocol,
      hostname: endpoint.hostname,
      port: endpoint.port,
      path: endpoint.pathPrefix + path + queryOf(query),
      method,
      headers,
      agent: unlimited ? endpoint.unlimitedAgent : endpoint.agent,
    })
    if (method === 'GET' || unfenced || !this.#fence) request.end(text)
    else this.#endWhenConnected(request, call, text)
    return request
  }

  /**
   * The lease may expire while the connection is being established, so the fence is checked again before anything is sent.
   */
  #endWhenConnected(request: ClientRequest, call: ApiCall, text: string | undefined): void {
    const end = () => {
      const forbidden = this.#forbidden(call)
      if (forbidden) request.destroy(forbidden)
      else request.end(text)
    }
    request.once('socket', (socket) => {
      if (socket.connecting) socket.once('encrypted' in socket ? 'secureConnect' : 'connect', end)
      else end()
    })
  }

  #timeoutMs({ timeoutMs }: ApiCall): number {
    return timeoutMs ?? this.#callTimeoutMs
  }

  /**
   * Returns a function that settles the call with its own result. Whichever comes first, that function or `giveUp`, settles
   * the call; the other then has no effect.
   */
  #bind(call: ApiCall, remainingMs: number, giveUp: (error: FleetError) => void): (settleWith: () => void) => void {
    const scope = this.#scope
    const { signal } = call
    let isSettled = false
    const settle = (settleWith: () => void) => {
      if (isSettled) return
      isSettled = true
      cancel()
      signal?.removeEventListener('abort', abort)
      scope.delete(close)
      settleWith()
    }
    const abort = () => settle(() => giveUp(aborted(signal)))
    const close = () => settle(() => giveUp(closed()))
    const cancel = this.#clock.after(Math.max(0, remainingMs), () => settle(() => giveUp(this.#timedOut(call))))
    signal?.addEventListener('abort', abort, { once: true })
    scope.add(close)
    // The client may have closed, or the signal fired, while credentials were being fetched.
    if (scope.closed) close()
    else if (signal?.aborted) abort()
    return settle
  }

  #timedOut(call: ApiCall): FleetError {
    const message = `failed to ${call.what}: the Kubernetes API at ${this.server} did not answer`
    return new FleetError('unavailable', `${message} within ${this.#timeoutMs(call) / 1_000} s`)
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

/** Returns true if it has resolved the call with the open response. */
type TakeStream<T> = (
  response: IncomingMessage,
  request: ClientRequest,
  resolve: (result: T) => void,
  socket?: Duplex,
) => boolean

const mergePatch = 'application/merge-patch+json'
const warmTimeoutMs = 5_000

/** A large list takes a long time to serialize and transfer. */
const listTimeoutMs = 60_000

interface ListResult {
  readonly items: readonly KubeObject[]
  readonly revision: string
}

interface Page extends ListResult {
  /** Where the next page begins; empty after the last one. */
  readonly next: string
}

/** About 5 MB of pods. */
const defaultPageSize = 500

/**
 * Reads a list in pages. With thousands of objects, one response would take seconds to parse, in which a leader cannot renew its lease, and
 * many times its size in memory. All pages show the same revision. If the server no longer has it when a later page is read, the list is
 * read again without paging. A call with a limit of its own gets only its first page. Throws `unexpected` if a response is not a list.
 */
export async function listPages(
  call: ApiCall,
  request: (call: ApiCall) => Promise<unknown>,
  unexpected: () => Error,
  limit = defaultPageSize,
): Promise<ListResult> {
  const read = async (query: ApiCall['query']): Promise<Page> => {
    const page = pageIn(await request({ ...call, query: { ...call.query, ...query } }))
    if (!page) throw unexpected()
    return page
  }
  if (call.query?.['limit'] !== undefined) return read({})
  const first = await read({ limit })
  const items = [...first.items]
  for (let { next } = first; next !== '';) {
    try {
      const page = await read({ limit, continue: next })
      items.push(...page.items)
      next = page.next
    } catch (error) {
      if (statusOf(error) !== 410) throw error
      return read({})
    }
  }
  return { items, revision: first.revision }
}

function pageIn(response: unknown): Page | undefined {
  if (!isObject(response) || !Array.isArray(response['items']) || !isObject(response['metadata'])) return undefined
  const { metadata } = response
  const items = response['items'].filter(isKubeObject)
  for (const item of items) dropManagedFields(item.metadata)
  return {
    items,
    revision: stringAt(metadata, 'resourceVersion') ?? '',
    next: stringAt(metadata, 'continue') ?? '',
  }
}

/** Who has set which field: most of a pod's size, and of no use to this host. */
function dropManagedFields(metadata: KubeMeta & { managedFields?: unknown }): void {
  delete metadata.managedFields
}

function responseOf(response: IncomingMessage, chunks: readonly Buffer[]): ApiResponse {
  const [first] = chunks
  const text = chunks.length === 1 && first ? first.toString() : Buffer.concat(chunks).toString()
  const seconds = Number(response.headers['retry-after'])
  return { status: response.statusCode ?? 0, text, retryAfterMs: seconds > 0 ? seconds * 1_000 : 1_000 }
}

function queryOf(query: ApiCall['query']): string {
  if (query === undefined) return ''
  const parts = Object.entries(query).flatMap(([name, value]) =>
    value === undefined ? [] : [value].flat().map((one) => `${name}=${encodeURIComponent(String(one))}`),
  )
  return parts.length === 0 ? '' : `?${parts.join('&')}`
}

function closed(): FleetError {
  return new FleetError('closed', 'the Kubernetes API client is closed')
}

function aborted(signal: AbortSignal | undefined): FleetError {
  return new FleetError('aborted', 'the call was aborted by its signal', { cause: signal?.reason })
}
