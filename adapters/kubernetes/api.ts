/**
 * Calls of the Kubernetes API: plain HTTP with the credentials of a KubeConfig, over connections that are kept. Each call has
 * a limit, and an error in words and with a code; all of them together are bounded to so many a second. What the calls
 * mean is for others to know.
 */
import type { ClientRequest, IncomingMessage } from 'node:http'
import type { Clock } from '../../src/clock.js'
import { FleetError, throwIfAborted } from '../../src/errors.js'
import { Underway } from '../../src/platform/underway.js'
import { isObject } from '../../src/rules/problem.js'
import { Access, type Way } from './access.js'
import { readRefusal, refused, unreachable } from './api-failures.js'
import type { Fence } from './fence.js'
import type { KubeConfigLike } from './kube-config.js'
import { isKubeObject, type KubeObject } from './kube-objects.js'
import { Pace } from './pace.js'

export interface KubernetesApiOptions {
  readonly config: KubeConfigLike
  readonly clock: Clock
  /** Most calls a second; urgent ones do not count. */
  readonly requestsPerSecond: number
  /** Most calls at once, each on a connection of its own that is kept. */
  readonly connections: number
  /** Longest a call takes, its wait for a turn included, unless it says otherwise. */
  readonly callMs: number
  /** Asked before anything is changed. Default: anything may be. */
  readonly fence?: Fence
}

export interface ApiCall {
  /** What is being done, for messages: `create pod arena-x2x4q`. */
  readonly what: string
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  /** From `pathOf`. */
  readonly path: string
  readonly query?: Readonly<Record<string, string | number | boolean | undefined>>
  /** Sent as JSON. */
  readonly body?: object
  /** Of a PATCH. Default `application/merge-patch+json`. */
  readonly contentType?: string
  readonly limitMs?: number
  /** Waits behind no other call that does not say so as well. */
  readonly ahead?: boolean
  /** Neither waits behind other calls nor counts among them: for leases and the like. */
  readonly urgent?: boolean
  /** Changes nothing that only the leader may change: the fence is not asked. */
  readonly unfenced?: boolean
  readonly signal?: AbortSignal | undefined
}

export interface OpenAnswer {
  /** Ends when the server ends it, and breaks with an error when the connection does. */
  readonly body: IncomingMessage
  stop(): void
}

interface Answer {
  readonly status: number
  readonly text: string
  readonly retryAfterMs: number
}

/** What was answered, or when to ask again: the server is busy, and has done nothing. */
type Outcome = { readonly json: unknown } | { readonly againMs: number }

export class KubernetesApi {
  readonly #options: KubernetesApiOptions
  readonly #access: Access
  readonly #pace: Pace
  /** Calls, streams and pauses. */
  readonly #underway = new Underway()
  /** Of the API server, for messages. */
  readonly place: string
  /** That the kubeconfig's context or the pod's service account names. */
  readonly namespace: string | undefined

  constructor(options: KubernetesApiOptions) {
    const { config, clock, requestsPerSecond, connections } = options
    this.#options = options
    this.#access = new Access(config, clock, connections)
    this.#pace = new Pace(clock, { perSecond: requestsPerSecond, atOnce: connections })
    this.place = this.#access.place
    this.namespace = config.getContextObject(config.getCurrentContext())?.namespace
  }

  get closed(): boolean {
    return this.#underway.closed
  }

  /** The answer's JSON. Rejects with a FleetError; `statusOf` and `reasonOf` tell what the API server has said. */
  async request(call: ApiCall): Promise<unknown> {
    if (this.#underway.closed) throw closed()
    throwIfAborted(call.signal)
    const endsAt = this.#options.clock.elapsed() + this.#limitMs(call)
    for (;;) {
      if (!call.urgent && !this.#pace.tryStart(call.ahead === true)) await this.#turn(call, endsAt)
      let outcome: Outcome
      try {
        outcome = await this.#exchange(call, endsAt)
      } finally {
        if (!call.urgent) this.#pace.done()
      }
      if ('json' in outcome) return outcome.json
      // Others have its turn meanwhile.
      await this.pause(outcome.againMs, call.signal)
      if (this.#underway.closed) throw closed()
      throwIfAborted(call.signal)
    }
  }

  /** The same for calls that answer with one object. */
  async object(call: ApiCall): Promise<KubeObject> {
    const answer = await this.request(call)
    if (isKubeObject(answer)) return answer
    throw this.#misunderstood(call)
  }

  /** The same for calls that answer with a list. */
  async list(call: ApiCall): Promise<{ readonly items: readonly KubeObject[]; readonly revision: string }> {
    const answer = await this.request({ limitMs: listMs, ...call })
    if (!isObject(answer) || !Array.isArray(answer['items']) || !isObject(answer['metadata'])) {
      throw this.#misunderstood(call)
    }
    const { resourceVersion } = answer['metadata']
    return {
      items: answer['items'].filter(isKubeObject),
      revision: typeof resourceVersion === 'string' ? resourceVersion : '',
    }
  }

  /** Resolves within the call's limit with an answer that goes on; the limit does not touch that any more. */
  async open(call: ApiCall): Promise<OpenAnswer> {
    if (this.#underway.closed) throw closed()
    throwIfAborted(call.signal)
    for (let attempt = 1; ; attempt++) {
      const way = await this.#access.now()
      const opened = await this.#begin({ ...call, urgent: true }, way)
      if ('body' in opened) return opened
      if (opened.status === 401 && attempt === 1) await this.#access.renew()
      else throw refused(readRefusal(opened.status, opened.text), call.what, this.place)
    }
  }

  /** Every call that is under way rejects, every stream ends. */
  close(): void {
    this.#underway.close()
    this.#access.close()
  }

  /** Resolves after so long, or at once when the signal fires or this is closed: the next call says so. */
  pause(ms: number, signal?: AbortSignal): Promise<void> {
    return this.#underway.pause(this.#options.clock, ms, signal)
  }

  #limitMs({ limitMs }: ApiCall): number {
    return limitMs ?? this.#options.callMs
  }

  #late(call: ApiCall): FleetError {
    const message = `the Kubernetes API at ${this.place} did not ${call.what} within ${this.#limitMs(call) / 1_000} s`
    return new FleetError('unavailable', message)
  }

  #turn(call: ApiCall, endsAt: number): Promise<void> {
    const { signal, ahead = false } = call
    const { clock } = this.#options
    return new Promise((resolve, reject) => {
      const settle = () => {
        cancelLimit()
        signal?.removeEventListener('abort', leave)
        this.#underway.delete(shut)
      }
      const giveUp = (error: FleetError) => {
        settle()
        cancel()
        reject(error)
      }
      const leave = () => giveUp(aborted(signal))
      const shut = () => giveUp(closed())
      signal?.addEventListener('abort', leave, { once: true })
      this.#underway.add(shut)
      const cancelLimit = clock.after(Math.max(0, endsAt - clock.elapsed()), () => giveUp(this.#late(call)))
      const cancel = this.#pace.wait(ahead, () => {
        settle()
        resolve()
      })
    })
  }

  async #exchange(call: ApiCall, endsAt: number): Promise<Outcome> {
    const { clock } = this.#options
    for (let isRenewed = false; ;) {
      const known = this.#access.now()
      const way = known instanceof Promise ? await known : known
      const { status, text, retryAfterMs } = await this.#send(call, way, Math.max(0, endsAt - clock.elapsed()))
      if (status >= 200 && status < 300) return { json: this.#parse(call, text) }
      if (status === 401 && !isRenewed) {
        isRenewed = true
        await this.#access.renew()
        continue
      }
      // The server is busy and has done nothing: it says itself when to come again.
      if (status === 429 && clock.elapsed() + retryAfterMs < endsAt && !call.signal?.aborted) {
        return { againMs: retryAfterMs }
      }
      throw refused(readRefusal(status, text), call.what, this.place)
    }
  }

  #parse(call: ApiCall, text: string): unknown {
    try {
      return text === '' ? undefined : JSON.parse(text)
    } catch (error) {
      throw this.#misunderstood(call, error)
    }
  }

  #misunderstood({ what }: ApiCall, cause?: unknown): FleetError {
    const message = `the Kubernetes API at ${this.place} did ${what} and answered with something else than it should`
    return new FleetError('unavailable', message, { cause })
  }

  /** Settles within what is left of the limit, whatever the connection does. */
  #send(call: ApiCall, way: Way, leftMs: number): Promise<Answer> {
    const refusal = this.#refusal(call)
    if (refusal) return Promise.reject(refusal)
    return new Promise((resolve, reject) => {
      const request = this.#start(call, way)
      const settle = this.#limit(call, leftMs, request, reject)
      request.once('response', (response) => {
        const chunks: Buffer[] = []
        response.on('data', (chunk: Buffer) => chunks.push(chunk))
        response.once('error', (error) => settle(() => reject(unreachable(error, call.what, this.place))))
        response.once('end', () => settle(() => resolve(answerOf(response, chunks))))
      })
      request.on('error', (error) =>
        settle(() => reject(FleetError.is(error) ? error : unreachable(error, call.what, this.place))),
      )
    })
  }

  /** Why this call must not be sent now, if that is so. */
  #refusal({ method, unfenced }: ApiCall): FleetError | undefined {
    return method === 'GET' || unfenced ? undefined : this.#options.fence?.refusal()
  }

  #begin(call: ApiCall, way: Way): Promise<OpenAnswer | Answer> {
    return new Promise((resolve, reject) => {
      const request = this.#start(call, way)
      const settle = this.#limit(call, this.#limitMs(call), request, reject)
      request.on('error', (error) => settle(() => reject(unreachable(error, call.what, this.place))))
      request.once('response', (response) => {
        if (response.statusCode === 200) {
          const stop = () => void request.destroy()
          settle(() => resolve({ body: response, stop }))
          this.#underway.add(stop)
          response.once('close', () => this.#underway.delete(stop))
          // What breaks it is told to whoever reads it; one that nobody reads any more breaks in silence.
          response.on('error', () => {})
          return
        }
        const chunks: Buffer[] = []
        response.on('data', (chunk: Buffer) => chunks.push(chunk))
        response.once('error', (error) => settle(() => reject(unreachable(error, call.what, this.place))))
        response.once('end', () => settle(() => resolve(answerOf(response, chunks))))
      })
    })
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
    if (method === 'GET' || unfenced || !this.#options.fence) request.end(text)
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

  /** Ends the call at its limit, when its signal fires, or when this is closed. Returns what settles it before. */
  #limit(
    call: ApiCall,
    leftMs: number,
    request: ClientRequest,
    reject: (error: FleetError) => void,
  ): (how: () => void) => void {
    const { signal } = call
    let isSettled = false
    const settle = (how: () => void) => {
      if (isSettled) return
      isSettled = true
      cancel()
      signal?.removeEventListener('abort', leave)
      this.#underway.delete(shut)
      how()
    }
    const giveUp = (error: FleetError) => {
      // Who is told why must not hear of the connection that breaks for it.
      request.on('error', () => {})
      settle(() => reject(error))
      request.destroy()
    }
    const leave = () => giveUp(aborted(signal))
    const shut = () => giveUp(closed())
    const cancel = this.#options.clock.after(leftMs, () => giveUp(this.#late(call)))
    signal?.addEventListener('abort', leave, { once: true })
    this.#underway.add(shut)
    // It may have been too late already while credentials were fetched.
    if (this.#underway.closed) shut()
    else if (signal?.aborted) leave()
    return settle
  }
}

const mergePatch = 'application/merge-patch+json'
/** A list of a large fleet takes long to write and to send. */
const listMs = 60_000

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

function aborted(signal: AbortSignal | undefined): FleetError {
  return new FleetError('aborted', 'the call was aborted by its signal', { cause: signal?.reason })
}

function closed(): FleetError {
  return new FleetError('closed', 'the connection to the Kubernetes cluster is closed')
}
