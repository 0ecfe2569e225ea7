/**
 * One request over HTTP and its answer, whole or as a stream. Whatever the connection does, it settles within the call's
 * bounds; and what changes anything is not sent once the fence is shut.
 */
import type { ClientRequest, IncomingMessage } from 'node:http'
import { FleetError } from '../../../src/contracts/errors.js'
import type { Underway } from '../../shared/underway.js'
import type { Way } from './transport.js'
import type { Answer, ApiCall, OpenAnswer } from './api-call.js'
import { unreachable } from './api-errors.js'
import type { CallLimits } from './call-limits.js'
import type { Fence } from '../leader-election/fence.js'

export interface HttpExchangeDependencies {
  readonly bounds: CallLimits
  readonly underway: Underway
  readonly fence: Fence | undefined
  /** Of the API server, for messages. */
  readonly place: string
}

const mergePatch = 'application/merge-patch+json'

export class HttpExchange {
  readonly #parts: HttpExchangeDependencies

  constructor(parts: HttpExchangeDependencies) {
    this.#parts = parts
  }

  /** Within what is left of the limit. */
  send(call: ApiCall, way: Way, leftMs: number): Promise<Answer> {
    const refusal = this.#refusal(call)
    if (refusal) return Promise.reject(refusal)
    return this.#exchange<Answer>(call, way, leftMs, () => false)
  }

  /** The whole limit is for the answer to begin; a refusal ends as well. */
  open(call: ApiCall, way: Way): Promise<OpenAnswer | Answer> {
    const { bounds, underway } = this.#parts
    return this.#exchange<OpenAnswer | Answer>(call, way, bounds.limitMs(call), (response, request, settle) => {
      if (response.statusCode !== 200) return false
      const stop = () => void request.destroy()
      settle({ body: response, stop })
      underway.add(stop)
      response.once('close', () => underway.delete(stop))
      // What breaks it is told to whoever reads it; one that nobody reads any more breaks in silence.
      response.on('error', () => {})
      return true
    })
  }

  /** `takes`: true when it has settled the call with an answer that goes on. */
  #exchange<T>(
    call: ApiCall,
    way: Way,
    leftMs: number,
    takes: (response: IncomingMessage, request: ClientRequest, settle: (answer: T) => void) => boolean,
  ): Promise<T | Answer> {
    const { bounds, place } = this.#parts
    return new Promise((resolve, reject) => {
      const request = this.#start(call, way)
      const settle = bounds.bind(call, leftMs, (error) => {
        // Who is told why must not hear of the connection that breaks for it.
        request.on('error', () => {})
        reject(error)
        request.destroy()
      })
      const fail = (error: Error) =>
        settle(() => reject(FleetError.is(error) ? error : unreachable(error, call.what, place)))
      request.on('error', fail)
      request.once('response', (response) => {
        if (takes(response, request, (answer) => settle(() => resolve(answer)))) return
        const chunks: Buffer[] = []
        response.on('data', (chunk: Buffer) => chunks.push(chunk))
        response.once('error', fail)
        response.once('end', () => settle(() => resolve(answerOf(response, chunks))))
      })
    })
  }

  /** Why this call must not be sent now, if that is so. */
  #refusal({ method, unfenced }: ApiCall): FleetError | undefined {
    return method === 'GET' || unfenced ? undefined : this.#parts.fence?.refusal()
  }

  #start(call: ApiCall, way: Way): ClientRequest {
    const { method, path, query, body, contentType, urgent, unfenced } = call
    const text = body === undefined ? undefined : JSON.stringify(body)
    const headers: Record<string, string | number> = { ...way.headers, accept: 'application/json' }
    if (text !== undefined) {
      headers['content-type'] = contentType ?? (method === 'PATCH' ? mergePatch : 'application/json')
      headers['content-length'] = Buffer.byteLength(text)
    }
    const request = way.request({
      protocol: way.protocol,
      hostname: way.hostname,
      port: way.port,
      path: way.prefix + path + queryOf(query),
      method,
      headers,
      agent: urgent ? way.apart : way.agent,
    })
    if (method === 'GET' || unfenced || !this.#parts.fence) request.end(text)
    else this.#endConnected(request, call, text)
    return request
  }

  /** A connection may take longer to come about than the lease lasts: not before it is there is anything sent. */
  #endConnected(request: ClientRequest, call: ApiCall, text: string | undefined): void {
    const end = () => {
      const refusal = this.#refusal(call)
      if (refusal) request.destroy(refusal)
      else request.end(text)
    }
    request.once('socket', (socket) => {
      if (socket.connecting) socket.once('encrypted' in socket ? 'secureConnect' : 'connect', end)
      else end()
    })
  }
}

function answerOf(response: IncomingMessage, chunks: readonly Buffer[]): Answer {
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
