/**
 * Forwards requests to the leader. This host authorizes the caller and passes its identity on. While the fleet has no leader, or the
 * leader cannot be reached, a request is held for a limited time.
 */
import { agentListener, answering, type HeartbeatTarget } from '../agent/index.js'
import type { Caller, CallerKind } from '../contracts/call-options.js'
import { systemClock } from '../contracts/clock.js'
import { type ForwardedResponse, type LeaderLink, leadsPath } from '../contracts/elector.js'
import { FleetError, messageOf } from '../contracts/errors.js'
import { internalsOf } from '../fleet/internals.js'
import { discardRest } from '../platform/http-server.js'
import { defaultConfirmMs } from '../rules/model/allocation-request.js'
import { errorCodeHeader } from '../rules/model/wire.js'
import { isObject } from '../rules/validation/problem.js'
import { defaultMaxBodyBytes } from './core/bodies.js'
import { callerOf, callIDHeader, type Exchange, type Handler } from './core/exchange.js'
import { HttpError, type HttpResponse, retryAfter } from './core/responses.js'
import { isIdempotentOperation, type Operation, operations } from './operations.js'
import type { RouteGroup, Routes } from './route-binding.js'

/** How long a request that cannot have `wait` is held: long enough for a change of leader with a short lease. */
const holdMs = 5_000
/** How long a matchmaker's request without `wait` is held: long enough for a leader that hands over to the next one. */
const holdWithoutWaitMs = 1_000
/** Pauses before the same host is asked again, unless another leads sooner. */
const firstPauseMs = 50
const longestPauseMs = 500
/** How long the leader may take for what is not repeated: longer than any call that still comes to an end. */
const answerMs = 150_000
/** How long it may take beyond the time that the call is held, if another host can be asked as well. */
const repeatableAnswerMs = 3_000

interface ForwardingContext {
  readonly link: LeaderLink
  /** Aborts when this host closes. */
  readonly closing: AbortSignal
  readonly maxBodyBytes?: number | undefined
  /** Does not count a request that waits for a server. May refuse it, because too many wait. */
  readonly uncounted?: <T>(work: () => Promise<T>) => Promise<T>
  /** Rejects if this host refuses the request whatever the leader would answer. */
  readonly check?: (exchange: Exchange, operation: Operation) => Promise<unknown>
}

/** Wraps the handlers of a group of routes. */
export function forwarding(context: ForwardingContext): (operation: Operation, handle: Handler) => Handler {
  return (operation, handle) => {
    if (operations[operation.name].isOfHost) return handle
    return (exchange) => new ForwardableCall(operation, handle, exchange, context).run()
  }
}

class ForwardableCall {
  readonly #operation: Operation
  readonly #handle: Handler
  readonly #exchange: Exchange
  readonly #context: ForwardingContext
  readonly #began = systemClock.elapsed()
  readonly #mayRepeat: boolean
  readonly #waitMs: number | undefined
  /** Why the last attempt led to nothing. */
  #obstacle = 'no host leads the fleet now'

  constructor(operation: Operation, handle: Handler, exchange: Exchange, context: ForwardingContext) {
    this.#operation = operation
    this.#handle = handle
    this.#exchange = exchange
    this.#context = context
    this.#mayRepeat = mayRepeat(operation)
    this.#waitMs = waitMsOf(exchange.query('wait'))
  }

  async run(): Promise<HttpResponse> {
    for (let pauseMs = firstPauseMs; ; pauseMs = Math.min(2 * pauseMs, longestPauseMs)) {
      if (this.#context.link.leads()) {
        const response = await this.#carryOut()
        if (response !== undefined) return response
        this.#limitWait()
      } else if (pauseMs === firstPauseMs) await this.#context.check?.(this.#exchange, this.#operation)
      const ask = () => this.#ask(pauseMs)
      const { uncounted } = this.#context
      const answer = await (this.#waitMs !== undefined && uncounted ? uncounted(ask) : ask())
      if (answer !== undefined) return answer
      this.#limitWait()
    }
  }

  /** Resolves with undefined if this host has stopped to lead meanwhile. */
  async #carryOut(): Promise<HttpResponse | undefined> {
    try {
      return await (operations[this.#operation.name].endsWithLead ? this.#stream() : this.#handle(this.#exchange))
    } catch (error) {
      const { link, closing } = this.#context
      if (!this.#mayRepeat || !isForNextLeader(error, link) || closing.aborted) throw error
      this.#obstacle = messageOf(error)
      return undefined
    }
  }

  /** Once this host no longer leads it has no more events, so the stream ends, and the reader connects again. */
  async #stream(): Promise<HttpResponse> {
    const change = new LeaderChange(this.#context.link, undefined, this.#exchange.gone)
    this.#exchange.useSignal(change.signal)
    let stream: HttpResponse['stream']
    try {
      const response = await this.#handle(this.#exchange)
      stream = response.stream && released(response.stream, change)
      return stream ? { ...response, stream } : response
    } finally {
      if (!stream) change.release()
    }
  }

  /** Asks the leader. If it has no answer, waits until it may have one, and resolves with undefined. */
  async #ask(pauseMs: number): Promise<HttpResponse | undefined> {
    const { link, closing } = this.#context
    const { gone } = this.#exchange
    const address = link.leader()
    const change = new LeaderChange(link, address, gone)
    let response: HttpResponse | undefined
    try {
      response = address === undefined ? undefined : await this.#send(address, change)
      if (response !== undefined) return response
      if (closing.aborted || gone.aborted || this.#leftMs() <= 0) throw this.#refusal()
      await change.within(Math.min(pauseMs, this.#leftMs()), closing)
      return undefined
    } finally {
      // A stream releases it when it ends.
      if (response?.stream === undefined) change.release()
    }
  }

  /** Resolves with undefined if the request should be sent again: to the next leader, or to this one once it is ready. */
  async #send(address: string, change: LeaderChange): Promise<HttpResponse | undefined> {
    const { link, closing, maxBodyBytes = defaultMaxBodyBytes } = this.#context
    const { method, path, search } = this.#exchange
    const body = method === 'GET' || method === 'HEAD' ? undefined : await this.#exchange.body(maxBodyBytes)
    const request = {
      method,
      path: search === '' ? path : `${path}?${search}`,
      headers: headersFor(this.#exchange),
      body,
    }
    const cancel = systemClock.after(this.#answerMs(), () => change.abort(new Error('it has not answered in time')))
    // A caller that waits for a server learns at once that this host closes.
    const onClosing = () => change.abort()
    if (this.#waitMs !== undefined) closing.addEventListener('abort', onClosing)
    try {
      const sent = await link.send(address, request, change.signal)
      if ('failure' in sent) return this.#failed(sent.failure, sent.error)
      return await this.#answerOf(sent.response, change)
    } finally {
      cancel()
      closing.removeEventListener('abort', onClosing)
    }
  }

  async #answerOf(answer: ForwardedResponse, change: LeaderChange): Promise<HttpResponse | undefined> {
    const { status, headers, text, isWhole } = answer
    if (!isWhole && status === 200 && this.#exchange.method !== 'HEAD') {
      const stream = released(untilClosing(text, change, this.#context.closing), change)
      // The leader says by this header that it would have compressed it for a caller who accepts that.
      const isCompressible = /\baccept-encoding\b/i.test(headers['Vary'] ?? '')
      return { status, headers, stream, isCompressible }
    }
    let body = ''
    try {
      for await (const part of text) body += part
    } catch (error) {
      return this.#failed('unknown', error)
    }
    if (headers[notBegunHeader] !== undefined || (this.#mayRepeat && isElsewhere(headers[errorCodeHeader]))) {
      this.#obstacle = 'the host that led is stepping down, or the next one is starting'
      return undefined
    }
    return body === '' ? { status, headers } : { status, headers, body }
  }

  #failed(failure: 'unsent' | 'unknown', error: unknown): undefined {
    if (this.#exchange.gone.aborted) throw new FleetError('aborted', 'the client has disconnected', { cause: error })
    this.#obstacle = messageOf(error)
    if (failure === 'unsent' || this.#mayRepeat) return undefined
    const message =
      'the connection to the host that leads broke after the request was sent: it may have been carried out, so find out before you repeat it'
    throw new FleetError('unavailable', message, { cause: error })
  }

  /** How long the leader may take to begin its answer. A stream may then last. */
  #answerMs(): number {
    if (!this.#mayRepeat) return answerMs
    const confirms = this.#waitMs === undefined && this.#exchange.query('confirm') !== undefined
    return Math.max(0, this.#leftMs()) + (confirms ? defaultConfirmMs : 0) + repeatableAnswerMs
  }

  /** What a caller has waited at one host it does not wait again at the next. */
  #limitWait(): void {
    if (this.#waitMs !== undefined) this.#exchange.limitWait(this.#leftMs())
  }

  #leftMs(): number {
    const usualMs = this.#operation.role === 'allocate' ? holdWithoutWaitMs : holdMs
    return (this.#waitMs ?? this.#context.link.holdMs ?? usualMs) - (systemClock.elapsed() - this.#began)
  }

  #refusal(): FleetError {
    if (this.#context.closing.aborted) {
      return new FleetError('closed', 'this host is closing; retry on another host, or here after its restart')
    }
    const reached = `this host does not lead the fleet and reaches no host that does: ${this.#obstacle}`
    return new FleetError('not-leader', reached)
  }
}

/** Undefined if the caller does not say how long it waits. The leader refuses what is no number of seconds. */
function waitMsOf(text: string | undefined): number | undefined {
  return text !== undefined && /^\d{1,6}(\.\d+)?$/.test(text) ? Number(text) * 1_000 : undefined
}

async function* released(stream: AsyncIterable<string>, change: LeaderChange): AsyncGenerator<string> {
  try {
    yield* stream
  } finally {
    change.release()
  }
}

async function* untilClosing(
  text: AsyncIterable<string>,
  change: LeaderChange,
  closing: AbortSignal,
): AsyncGenerator<string> {
  const close = () => change.abort()
  if (closing.aborted) close()
  closing.addEventListener('abort', close)
  try {
    yield* text
  } finally {
    closing.removeEventListener('abort', close)
  }
}

/** A leader that steps down still answers what it has begun. */
const graceMs = 1_000

/** Notices, while a request is carried out or held, that another host leads. */
export class LeaderChange {
  /** Aborts when the caller has gone, or a second after the host that was asked has stopped to lead. */
  readonly signal: AbortSignal
  readonly #aborter = new AbortController()
  readonly #unfollow: () => void
  readonly #gone: AbortSignal
  /** Nobody may read a stream whose caller has gone, so that nothing else would release this. */
  readonly #onGone = () => {
    this.#aborter.abort(this.#gone.reason)
    this.release()
  }
  #cancelGrace = () => {}
  #hasChanged = false
  #wake = () => {}

  /** `asked`: the address of the leader, or undefined if this host leads. */
  constructor(link: LeaderLink, asked: string | undefined, gone: AbortSignal) {
    this.signal = this.#aborter.signal
    this.#gone = gone
    this.#unfollow = link.follow(() => {
      this.#hasChanged = true
      this.#wake()
      this.#cancelGrace()
      const leads = asked === undefined ? link.leads() : link.leader() === asked
      if (!leads)
        this.#cancelGrace = systemClock.after(graceMs, () => this.#aborter.abort(new Error('another host leads')))
    })
    if (gone.aborted) this.#onGone()
    else gone.addEventListener('abort', this.#onGone)
  }

  /** Resolves when another host leads, after `ms`, or when the caller has gone or this host closes. */
  async within(ms: number, closing: AbortSignal): Promise<void> {
    if (this.#hasChanged || this.#gone.aborted || closing.aborted) return
    let cancel = () => {}
    let wake = () => {}
    await new Promise<void>((resolve) => {
      wake = resolve
      this.#wake = resolve
      cancel = systemClock.after(ms, resolve)
      this.#gone.addEventListener('abort', wake)
      closing.addEventListener('abort', wake)
    })
    cancel()
    this.#gone.removeEventListener('abort', wake)
    closing.removeEventListener('abort', wake)
  }

  abort(reason?: Error): void {
    this.#aborter.abort(reason)
  }

  release(): void {
    this.#unfollow()
    this.#cancelGrace()
    this.#gone.removeEventListener('abort', this.#onGone)
  }
}

// What the hosts of a fleet agree on for forwarded requests: their headers, and which may be sent to a second host.

/** Who sent the request, as base64url of JSON. Trusted only on connections that prove the shared key. */
const callerHeader = 'Gamekeeper-Caller'
/** Of an answer: the host does not lead and has not begun to carry out the request, so it may be sent to another. */
const notBegunHeader = 'Gamekeeper-Not-Begun'

/** What handlers read. Never the caller's credentials. */
const passedOn = ['accept', 'content-type', 'last-event-id', 'origin', 'traceparent', 'tracestate', 'baggage'] as const

function headersFor(exchange: Exchange): Readonly<Record<string, string>> {
  const headers: Record<string, string> = {
    [callerHeader]: Buffer.from(JSON.stringify(callerOf(exchange))).toString('base64url'),
  }
  for (const name of passedOn) {
    const value = exchange.header(name)
    if (value !== undefined) headers[name] = value
  }
  if (exchange.callID !== undefined) headers[callIDHeader] = exchange.callID
  return headers
}

const kinds: readonly CallerKind[] = ['host', 'token', 'certificate', 'anonymous']

function readCaller(exchange: Exchange): Caller {
  const text = exchange.header(callerHeader.toLowerCase()) ?? ''
  let caller: unknown
  try {
    caller = JSON.parse(Buffer.from(text, 'base64url').toString())
  } catch {
    caller = undefined // Only hosts of the fleet can connect; a version with another header forwards as anonymous.
  }
  if (!isObject(caller)) return { kind: 'anonymous' }
  const { name, address } = caller
  return {
    kind: kinds.find((kind) => kind === caller['kind']) ?? 'anonymous',
    ...(typeof name === 'string' && { name }),
    ...(typeof address === 'string' && { address }),
  }
}

/**
 * Whether a request may be sent again to another host after this one may have carried it out. A change by an operator is not: others may
 * have changed the same since, so that the caller has to look first.
 */
function mayRepeat({ name, role }: Operation): boolean {
  return role !== 'manage' && isIdempotentOperation(name)
}

/** The next leader may do what this host could not, because it does not lead, or has stopped to meanwhile. */
function isForNextLeader(error: unknown, link: LeaderLink): boolean {
  if (!FleetError.is(error)) return false
  return isElsewhere(error.code) || (error.code === 'unavailable' && !link.leads())
}

function isElsewhere(code: string | undefined): boolean {
  return code === 'not-leader' || code === 'closed'
}

// The routes that the fleet's other hosts reach, on a listener that admits them alone. What they forward is carried out here, or refused:
// it is never forwarded again, so that two hosts cannot pass a request to and fro.

/** The groups as other hosts use them: they have authorized the caller. */
export function forwardedGroups(fleet: object, groups: readonly RouteGroup[]): readonly RouteGroup[] {
  const link = internalsOf(fleet)?.link
  if (!link) return []
  const [first] = groups
  const answer = async () => {
    link.heard()
    if (!link.leads()) throw notBegun()
    return { status: 204 }
  }
  const pages = { [leadsPath]: answer }
  return [...groups.map((group) => forwardedGroup(group, link)), ...(first ? [{ ...first, handlers: {}, pages }] : [])]
}

/**
 * Also answers the heartbeats that other hosts pass on. The fleet answers each itself, or refuses it while it does not lead: the host that has
 * it then answers the game, and the connection between the hosts stays open.
 */
export function withHeartbeats(routes: Routes, fleet: HeartbeatTarget): Routes {
  const link = internalsOf(fleet)?.link
  const agent = agentListener(answering(fleet))
  return {
    ...routes,
    nodeHandler: (request, response) =>
      routes.nodeHandler(request, response, () => {
        if (link?.leads() !== false) return agent(request, response)
        response.writeHead(503, { 'Content-Length': 0, [notBegunHeader]: 'true' }).end()
        discardRest(request)
      }),
  }
}

/** The host that has received the request counts it. */
function forwardedGroup({ forward: _, observers: __, ...group }: RouteGroup, link: LeaderLink): RouteGroup {
  return {
    ...group,
    guard: {
      inFlight: group.guard.inFlight,
      before(operation, handle) {
        const failed = (error: unknown): never => {
          if (!mayRepeat(operation) || !isForNextLeader(error, link)) throw error
          throw new FleetError('not-leader', 'this host does not lead the fleet any more', { cause: error })
        }
        return (exchange) => {
          link.heard()
          if (!link.leads()) throw notBegun()
          exchange.forwardedCaller = readCaller(exchange)
          return handle(exchange).catch(failed)
        }
      },
    },
  }
}

function notBegun(): HttpError {
  const { code, message } = new FleetError('not-leader', 'this host does not lead the fleet')
  return new HttpError(503, code, message, { ...retryAfter(1_000), [notBegunHeader]: 'true' })
}
