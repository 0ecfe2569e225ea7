/**
 * Sends one HTTP request and receives its response, either complete or as a stream. Settles within the call's limits even if
 * the connection fails or hangs, and never sends a write that the fence forbids.
 */
import type { ClientRequest, IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import { FleetError } from '../../../src/contracts/errors.js'
import type { CancelScope } from '../../shared/cancel-scope.js'
import type { ApiCall, ApiResponse, ApiStream } from './api-call.js'
import { unreachable } from './api-errors.js'
import type { CallLimits } from './call-limits.js'
import type { Endpoint } from './connections/transport.js'
import type { WriteFence } from './write-fence.js'

export interface HttpExchangeDependencies {
  readonly limits: CallLimits
  readonly scope: CancelScope
  readonly fence: WriteFence | undefined
  /** Origin of the API server, used in messages. */
  readonly server: string
}

const mergePatch = 'application/merge-patch+json'

export class HttpExchange {
  readonly #deps: HttpExchangeDependencies

  constructor(deps: HttpExchangeDependencies) {
    this.#deps = deps
  }

  send(call: ApiCall, endpoint: Endpoint, remainingMs: number): Promise<ApiResponse> {
    const forbidden = this.#checkFence(call)
    if (forbidden) return Promise.reject(forbidden)
    return this.#exchange<ApiResponse>(call, endpoint, remainingMs, () => false)
  }

  /** Opens a stream. The call's timeout applies until the response headers arrive. An error response is read completely. */
  open(call: ApiCall, endpoint: Endpoint): Promise<ApiStream | ApiResponse> {
    const { limits, scope } = this.#deps
    const timeoutMs = limits.timeoutMs(call)
    return this.#exchange<ApiStream | ApiResponse>(call, endpoint, timeoutMs, (response, request, resolve, socket) => {
      if (response.statusCode !== 200 && !socket) return false
      const stop = () => void (socket ?? request).destroy()
      const stream = socket ?? response
      resolve({ body: response, ...(socket && { socket }), stop })
      scope.add(stop)
      stream.once('close', () => scope.delete(stop))
      // The stream's reader receives the error; this listener prevents an unhandled error if the stream is abandoned.
      stream.on('error', () => {})
      return true
    })
  }

  /** `takeStream` returns true if it has resolved the call with the open response. */
  #exchange<T>(
    call: ApiCall,
    endpoint: Endpoint,
    remainingMs: number,
    takeStream: (
      response: IncomingMessage,
      request: ClientRequest,
      resolve: (result: T) => void,
      socket?: Duplex,
    ) => boolean,
  ): Promise<T | ApiResponse> {
    const { limits, server } = this.#deps
    return new Promise((resolve, reject) => {
      const request = this.#start(call, endpoint)
      const settle = limits.bind(call, remainingMs, (error) => {
        // Destroying the request emits an error, which by then has no other listener.
        request.on('error', () => {})
        reject(error)
        request.destroy()
      })
      const fail = (error: Error) =>
        settle(() => reject(FleetError.is(error) ? error : unreachable(error, call.what, server)))
      request.on('error', fail)
      request.once('upgrade', (response, socket, head) => {
        socket.unshift(head)
        takeStream(response, request, (result) => settle(() => resolve(result)), socket)
      })
      request.once('response', (response) => {
        if (takeStream(response, request, (result) => settle(() => resolve(result)))) return
        const chunks: Buffer[] = []
        response.on('data', (chunk: Buffer) => chunks.push(chunk))
        response.once('error', fail)
        response.once('end', () => settle(() => resolve(responseOf(response, chunks))))
      })
    })
  }

  #checkFence({ method, unfenced }: ApiCall): FleetError | undefined {
    return method === 'GET' || unfenced ? undefined : this.#deps.fence?.check()
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
    if (method === 'GET' || unfenced || !this.#deps.fence) request.end(text)
    else this.#endWhenConnected(request, call, text)
    return request
  }

  /**
   * The lease may expire while the connection is being established, so the fence is checked again before anything is sent.
   */
  #endWhenConnected(request: ClientRequest, call: ApiCall, text: string | undefined): void {
    const end = () => {
      const forbidden = this.#checkFence(call)
      if (forbidden) request.destroy(forbidden)
      else request.end(text)
    }
    request.once('socket', (socket) => {
      if (socket.connecting) socket.once('encrypted' in socket ? 'secureConnect' : 'connect', end)
      else end()
    })
  }
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
    value === undefined ? [] : [`${name}=${encodeURIComponent(String(value))}`],
  )
  return parts.length === 0 ? '' : `?${parts.join('&')}`
}
