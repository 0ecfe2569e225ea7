/**
 * Sends the events of a fleet to a URL: signed, at least once, in order for each server. One that cannot be delivered is
 * tried again after pauses, then told as a dead letter. What waits is bounded: beyond it events stay in the fleet's log,
 * and whatever that no longer holds is delivered as `EventsDropped`.
 */
import { type Clock, systemClock } from '../../contracts/clock.js'
import { FleetError, messageOf } from '../../contracts/errors.js'
import type { FleetEventType } from '../../contracts/events.js'
import { internalsOf } from '../../fleet/internals.js'
import { limiter } from '../../util/limiter.js'
import { type Logger, silentLogger } from '../../contracts/logger.js'
import { pauseMs } from '../../rules/lifecycle/backoff.js'
import { keyOf } from '../../rules/model/resources.js'
import { logOf, type ReadableFleet, type StreamedEvent } from '../api/event-stream.js'
import { signWebhook, webhookHeaders, webhookKey } from './signature.js'

export interface WebhookOptions {
  /** `http:` or `https:`. Redirects are not followed. */
  readonly url: string
  /** At least 16 bytes; `verifyWebhook` and the libraries of Standard Webhooks know how to use it. */
  readonly secret: string
  /**
   * Default: all that are numbered, but for `WebhookFailed`, which even then only tells of other webhooks. `EventsDropped`
   * is always sent.
   */
  readonly types?: readonly Exclude<FleetEventType, 'PlayersChanged'>[]
  /** Number of the first event to send. Default: the next one to happen. */
  readonly from?: number
  /** Sent along, for who stands between. */
  readonly headers?: Readonly<Record<string, string>>
  /** An attempt that is not answered after this long has failed. Default 10 s. */
  readonly timeoutMs?: number
  /** Attempts before an event becomes a dead letter. Default 15, which is some 9 minutes. */
  readonly attempts?: number
  /** First pause after a failure; doubles with each further one. Default 1 s. */
  readonly backoffInitialMs?: number
  /** Longest pause. Default 60 s. */
  readonly backoffMaxMs?: number
  /** Attempts under way at once. Default 16. */
  readonly maxInFlight?: number
  /** Events that wait here at once; more wait in the fleet's log. Default 1,000. */
  readonly maxQueued?: number
  /** Has what was given up, besides the fleet's event `WebhookFailed`. */
  readonly onDeadLetter?: (event: StreamedEvent, reason: string) => void
  /** Default: silent. */
  readonly logger?: Logger
  /** Default: the real one. */
  readonly clock?: Clock
}

export interface Webhook {
  /** Events that wait to be delivered, or are on their way. */
  readonly queued: number
  /** Takes no more events, waits for those that are queued, and after `graceMs` (5 s) gives up the rest as dead letters. */
  close(options?: { readonly graceMs?: number }): Promise<void>
}

/** However long a receiver asks to be left alone. */
const longestPauseMs = 3_600_000

const usual = {
  timeoutMs: 10_000,
  attempts: 15,
  backoffInitialMs: 1_000,
  backoffMaxMs: 60_000,
  maxInFlight: 16,
  maxQueued: 1_000,
}

/** Throws `invalid` for a URL, a secret or a number that cannot be. */
export function webhook(fleet: ReadableFleet, options: WebhookOptions): Webhook {
  const { types, headers = {}, from, onDeadLetter, logger = silentLogger, clock = systemClock } = options
  const { timeoutMs, attempts, backoffInitialMs, backoffMaxMs, maxInFlight, maxQueued } = numbersOf(options)
  const url = checkedUrl(options.url)
  checkHeaders(headers)
  const shownUrl = url.origin + url.pathname
  const key = webhookKey(options.secret)
  const wanted = types && new Set<string>(types)
  const log = logOf(fleet)
  /** What is to be sent, in order, for each server; the first is on its way. */
  const lanes = new Map<string, StreamedEvent[]>()
  const slots = limiter(maxInFlight)
  /** No more events are taken. */
  const closing = new AbortController()
  /** Nothing is tried any more. */
  const over = new AbortController()
  let queued = 0
  let waiters: (() => void)[] = []

  const changed = () => {
    const waiting = waiters
    waiters = []
    for (const wake of waiting) wake()
  }

  const isWanted = (event: StreamedEvent) => {
    if (event.type === 'EventsDropped') return true
    // Of a webhook that does not work its own webhook need not hear.
    if (event.type === 'WebhookFailed') return event.url !== shownUrl && wanted?.has(event.type) === true
    return wanted === undefined || wanted.has(event.type)
  }

  async function take(): Promise<void> {
    for await (const event of fleet.events({ ...(from !== undefined && { from }), signal: closing.signal })) {
      if (!isWanted(event)) continue
      queued++
      const lane = laneOf(event)
      const waiting = lanes.get(lane)
      if (waiting) waiting.push(event)
      else {
        const begun = [event]
        lanes.set(lane, begun)
        void run(lane, begun)
      }
      while (queued >= maxQueued && !closing.signal.aborted) await anyChange()
    }
  }

  /** Never rejects. */
  async function run(lane: string, waiting: StreamedEvent[]): Promise<void> {
    for (let event = waiting[0]; event !== undefined; event = waiting[0]) {
      await deliver(event)
      waiting.shift()
      queued--
      changed()
    }
    lanes.delete(lane)
  }

  async function deliver(event: StreamedEvent): Promise<void> {
    let reason = 'this host has closed'
    for (let attempt = 1; !over.signal.aborted; attempt++) {
      const failure = await slots(() => post(event))
      if (failure === undefined) return
      reason = failure.reason
      if (attempt === 1)
        logger.warn({ url: shownUrl, seq: event.seq, error: reason }, 'a webhook could not be delivered')
      if (attempt >= attempts) return giveUp(event, attempt, reason)
      const ms = pauseMs(attempt, { initialMs: backoffInitialMs, maxMs: backoffMaxMs })
      await pause(clock, Math.max(ms, Math.min(failure.notBeforeMs, longestPauseMs)), over.signal)
    }
    giveUp(event, 0, reason)
  }

  /** Undefined when it was taken. */
  async function post(event: StreamedEvent): Promise<Failure | undefined> {
    if (over.signal.aborted) return { reason: 'this host has closed', notBeforeMs: 0 }
    const id = `${log}-${event.seq}`
    const timestamp = Math.floor(clock.now() / 1000)
    const body = JSON.stringify(event)
    const late = new AbortController()
    const cancel = clock.after(timeoutMs, () => late.abort(new Error(`no answer within ${timeoutMs / 1000} s`)))
    const onOver = () => late.abort(over.signal.reason)
    over.signal.addEventListener('abort', onOver)
    try {
      const response = await fetch(url, {
        method: 'POST',
        headers: {
          ...headers,
          'Content-Type': 'application/json',
          [webhookHeaders.id]: id,
          [webhookHeaders.timestamp]: String(timestamp),
          [webhookHeaders.signature]: signWebhook(key, id, timestamp, body),
        },
        body,
        redirect: 'manual',
        signal: late.signal,
      })
      await response.body?.cancel()
      if (response.ok) return undefined
      const seconds = Number(response.headers.get('retry-after') ?? 0)
      return { reason: `it was answered with ${response.status}`, notBeforeMs: seconds > 0 ? seconds * 1000 : 0 }
    } catch (error) {
      return { reason: reasonOf(error), notBeforeMs: 0 }
    } finally {
      cancel()
      over.signal.removeEventListener('abort', onOver)
    }
  }

  function giveUp(event: StreamedEvent, attempt: number, reason: string): void {
    const message = `event ${event.seq} (${event.type}) was not delivered to ${shownUrl}: ${reason}`
    logger.error({ url: shownUrl, seq: event.seq, event: event.type, attempts: attempt }, message)
    internalsOf(fleet)?.emit({
      type: 'WebhookFailed',
      at: clock.now(),
      message,
      url: shownUrl,
      eventSeq: event.seq,
      reason,
    })
    try {
      onDeadLetter?.(event, reason)
    } catch (error) {
      logger.error({ error: messageOf(error) }, 'onDeadLetter has thrown')
    }
  }

  function anyChange(): Promise<void> {
    return new Promise((resolve) => waiters.push(resolve))
  }
  closing.signal.addEventListener('abort', changed, { once: true })

  const taking = take().catch((error: unknown) => {
    logger.error(
      { error: messageOf(error) },
      'the events of the fleet could not be read: no webhooks are sent any more',
    )
  })

  return {
    get queued() {
      return queued
    },
    async close({ graceMs = 5_000 } = {}) {
      closing.abort()
      await taking
      const cancel = clock.after(graceMs, () => over.abort(new Error('this host has closed')))
      while (queued > 0) await anyChange()
      cancel()
    },
  }
}

interface Failure {
  readonly reason: string
  /** The receiver asks to be left alone for so long. */
  readonly notBeforeMs: number
}

function laneOf(event: StreamedEvent): string {
  if ('server' in event) return `server ${keyOf(event.server)}`
  return 'build' in event ? `build ${keyOf(event.build)}` : ''
}

function numbersOf(options: WebhookOptions): typeof usual {
  const numbers = { ...usual }
  for (const name of Object.keys(usual) as (keyof typeof usual)[]) {
    const value = options[name] ?? usual[name]
    if (!Number.isInteger(value) || value < 1) {
      throw new FleetError('invalid', `webhook: ${name} must be an integer ≥ 1, but is ${String(value)}`)
    }
    numbers[name] = value
  }
  return numbers
}

function checkedUrl(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url?.protocol !== 'http:' && url?.protocol !== 'https:') {
    throw new FleetError('invalid', 'webhook: url must be an address that begins with http: or https:')
  }
  if (url.username === '' && url.password === '') return url
  throw new FleetError('invalid', 'webhook: url may hold no user and no password; send them in headers: Authorization')
}

/** Never shows one. */
function checkHeaders(headers: Readonly<Record<string, string>>): void {
  try {
    void new Headers(headers)
  } catch {
    const names = Object.keys(headers).join(', ')
    throw new FleetError('invalid', `webhook: headers cannot be sent: one of ${names} holds what a header cannot`)
  }
}

/** `fetch failed` says nothing; its cause does. */
function reasonOf(error: unknown): string {
  return error instanceof Error && error.cause !== undefined ? messageOf(error.cause) : messageOf(error)
}

/** Ends early when the signal fires. */
function pause(clock: Clock, ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      cancel()
      signal.removeEventListener('abort', done)
      resolve()
    }
    const cancel = clock.after(ms, done)
    signal.addEventListener('abort', done)
    if (signal.aborted) done()
  })
}
