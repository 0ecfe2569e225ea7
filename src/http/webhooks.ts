/** A webhook's options: defaults and validation. */
import { createHmac, timingSafeEqual } from 'node:crypto'
import { type Clock, systemClock } from '../contracts/clock.js'
import { fetchReason, FleetError, messageOf } from '../contracts/errors.js'
import { checkEventType, type FleetEventType } from '../contracts/events.js'
import { type Logger, loggerOf } from '../contracts/logger.js'
import {
  aClock,
  aFunction,
  aLogger,
  anObject,
  aNumber,
  anything,
  aString,
  checkFleet,
  checkOptions,
  type OptionTypes,
  required,
  strings,
} from '../contracts/option-checks.js'
import { internalsOf } from '../fleet/internals.js'
import { pauseMs } from '../rules/lifecycle/backoff.js'
import { keyOf } from '../rules/model/resources.js'
import { isBytes } from '../rules/model/values.js'
import { isObject, shown } from '../rules/validation/problem.js'
import { limiter } from '../util/limiter.js'
import { logIDOf, type ReadableFleet, type StreamedEvent } from './api/event-stream.js'

export interface WebhookOptions {
  /** `http:` or `https:`. Redirects are not followed. */
  readonly url: string
  /** At least 16 bytes. Receivers verify signatures with it, using `verifyWebhook` or a Standard Webhooks library. */
  readonly secret: string
  /**
   * Event types to send. Default: all numbered types except `Audited` and `WebhookFailed`. If `WebhookFailed` is listed, only failures of
   * other webhooks are sent. `EventsDropped` is always sent.
   */
  readonly types?: readonly Exclude<FleetEventType, 'PlayersChanged'>[]
  /** Number of the first event to send. Default: the next event to be emitted. */
  readonly from?: number
  /** Added to every request, for example to authenticate with a proxy. */
  readonly headers?: Readonly<Record<string, string>>
  /** An attempt fails if no response arrives within this time. Default 10 s. */
  readonly timeoutMs?: number
  /** Maximum number of attempts before an event becomes a dead letter. Default 15, which takes about 9 minutes. */
  readonly attempts?: number
  /** Delay after the first failed attempt; it doubles after each further failure. Default 1 s. */
  readonly backoffInitialMs?: number
  /** Maximum delay between attempts. Default 60 s. */
  readonly backoffMaxMs?: number
  /** Maximum number of concurrent attempts. Default 16. */
  readonly maxInFlight?: number
  /** Maximum number of events in the webhook's queue; further events stay in the fleet's log. Default 1,000. */
  readonly maxQueued?: number
  /** Called for every dead letter. The fleet also emits `WebhookFailed`. */
  readonly onDeadLetter?: (event: StreamedEvent, reason: string) => void
  /** Default: warnings and errors go to stderr. false: none. */
  readonly logger?: Logger | false
  /** Default: the system clock. */
  readonly clock?: Clock
}

const defaults = {
  timeoutMs: 10_000,
  attempts: 15,
  backoffInitialMs: 1_000,
  backoffMaxMs: 60_000,
  maxInFlight: 16,
  maxQueued: 1_000,
}

/** Always sent, so it need not be listed. */
const droppedType: string = 'EventsDropped'

const optionTypes: OptionTypes<WebhookOptions> = {
  url: required(aString),
  secret: required(aString),
  types: strings,
  from: aNumber,
  headers: anObject,
  timeoutMs: aNumber,
  attempts: aNumber,
  backoffInitialMs: aNumber,
  backoffMaxMs: aNumber,
  maxInFlight: aNumber,
  maxQueued: aNumber,
  onDeadLetter: aFunction,
  logger: aLogger,
  clock: aClock,
}

type WebhookSettings = ReturnType<typeof resolveWebhookOptions>

/** Throws `invalid`, naming the bad option. */
function resolveWebhookOptions(options: WebhookOptions) {
  checkOptions('webhook', options, optionTypes)
  for (const type of options.types ?? []) if (type !== droppedType) checkEventType('webhook: types', type)
  const { types, from, headers = {}, onDeadLetter, clock = systemClock } = options
  const logger = loggerOf(options.logger)
  const numbers = resolveNumbers(options)
  const url = checkedUrl(options.url)
  checkHeaders(headers)
  return {
    ...numbers,
    url,
    /** Scheme and host only: the rest of the URL may be a secret, as it is for chat services. */
    shownUrl: url.origin,
    key: webhookKey(options.secret),
    types: types && new Set<string>(types),
    from,
    headers,
    onDeadLetter,
    logger,
    clock,
  }
}

function resolveNumbers(options: WebhookOptions): typeof defaults {
  const numbers = { ...defaults }
  for (const name of Object.keys(defaults) as (keyof typeof defaults)[]) {
    const value = options[name] ?? defaults[name]
    if (!Number.isInteger(value) || value < 1) {
      throw new FleetError('invalid', `webhook: ${name} must be an integer ≥ 1, but is ${shown(value)}`)
    }
    numbers[name] = value
  }
  return numbers
}

function checkedUrl(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url?.protocol !== 'http:' && url?.protocol !== 'https:') {
    throw new FleetError('invalid', 'webhook: url must be an absolute http: or https: URL')
  }
  if (url.username === '' && url.password === '') return url
  throw new FleetError('invalid', 'webhook: url must not contain credentials; send them as headers: Authorization')
}

/** Error messages never contain a header's value. */
function checkHeaders(headers: Readonly<Record<string, string>>): void {
  try {
    void new Headers(headers)
  } catch {
    const names = Object.keys(headers).join(', ')
    throw new FleetError('invalid', `webhook: headers: one of ${names} has a name or value that HTTP does not allow`)
  }
}

// Delivers a fleet's events to a URL: signed, at least once, and in order for each server. Failed deliveries are retried
// with back-off; after the last attempt the event becomes a dead letter. The queue is bounded: while it is full, further
// events stay in the fleet's log. If the log drops some of them before they are delivered, one `EventsDropped` is delivered in their place.

export interface Webhook {
  /** Number of events that are queued or being delivered. */
  readonly queued: number
  /**
   * Stops reading events and waits until the queued ones are delivered. After `graceMs` (default 5 s) the rest become dead
   * letters.
   */
  close(options?: { readonly graceMs?: number }): Promise<void>
}

/** Throws `invalid` if the URL, the secret, a header or a number is bad. */
export function webhook(fleet: ReadableFleet, options: WebhookOptions): Webhook {
  checkFleet('webhook', fleet, ['events'])
  const delivery = new WebhookDelivery(fleet, resolveWebhookOptions(options))
  return {
    get queued() {
      return delivery.queued
    },
    close: (closeOptions) => delivery.close(closeOptions),
  }
}

/** Upper limit for the delay that a receiver's `Retry-After` can cause. */
const maxRetryAfterMs = 3_600_000

class WebhookDelivery {
  readonly #fleet: ReadableFleet
  readonly #settings: WebhookSettings
  readonly #logID: string
  /** Queued events by `orderingKey`, in order. The first event in each queue is being delivered. */
  readonly #queues = new Map<string, StreamedEvent[]>()
  readonly #limit: ReturnType<typeof limiter>
  /** Once aborted, the webhook reads no more events. */
  readonly #closing = new AbortController()
  /** Once aborted, the webhook makes no more attempts. */
  readonly #stopped = new AbortController()
  readonly #reading: Promise<void>
  /** The `WebhookFailed` events that this webhook has emitted. The event log keeps the same objects. */
  readonly #ownFailures = new WeakSet<object>()
  #queued = 0
  #changeListeners: (() => void)[] = []

  constructor(fleet: ReadableFleet, settings: WebhookSettings) {
    this.#fleet = fleet
    this.#settings = settings
    this.#logID = logIDOf(fleet)
    this.#limit = limiter(settings.maxInFlight)
    this.#closing.signal.addEventListener('abort', () => this.#changed(), { once: true })
    this.#reading = this.#readEvents().catch((error: unknown) => {
      settings.logger.error({ err: error, url: settings.shownUrl }, 'cannot read fleet events; webhook stopped')
    })
  }

  get queued(): number {
    return this.#queued
  }

  async close({ graceMs = 5_000 }: { readonly graceMs?: number } = {}): Promise<void> {
    this.#closing.abort()
    await this.#reading
    const cancel = this.#settings.clock.after(graceMs, () => this.#stopped.abort(new Error(hostClosed)))
    while (this.#queued > 0) await this.#change()
    cancel()
  }

  async #readEvents(): Promise<void> {
    const { from, maxQueued } = this.#settings
    const { signal } = this.#closing
    for await (const event of this.#fleet.events({ ...(from !== undefined && { from }), signal })) {
      if (!this.#isWanted(event)) continue
      this.#enqueue(event)
      while (this.#queued >= maxQueued && !signal.aborted) await this.#change()
    }
  }

  #isWanted(event: StreamedEvent): boolean {
    const { types } = this.#settings
    if (event.type === 'EventsDropped') return true
    // Says who called from where, which is not for every receiver.
    if (event.type === 'Audited') return types?.has(event.type) === true
    // Sending this webhook's own failures to its own URL would only fail again.
    if (event.type === 'WebhookFailed') return !this.#ownFailures.has(event) && types?.has(event.type) === true
    return types === undefined || types.has(event.type)
  }

  #enqueue(event: StreamedEvent): void {
    this.#queued++
    const key = orderingKey(event)
    const queue = this.#queues.get(key)
    if (queue) {
      queue.push(event)
      return
    }
    const created = [event]
    this.#queues.set(key, created)
    void this.#drain(key, created)
  }

  /** Never rejects. */
  async #drain(key: string, queue: StreamedEvent[]): Promise<void> {
    for (let event = queue[0]; event !== undefined; event = queue[0]) {
      await this.#deliver(event)
      queue.shift()
      this.#queued--
      this.#changed()
    }
    this.#queues.delete(key)
  }

  async #deliver(event: StreamedEvent): Promise<void> {
    const { attempts, backoffInitialMs, backoffMaxMs, clock, logger, shownUrl } = this.#settings
    let reason = hostClosed
    for (let attempt = 1; !this.#stopped.signal.aborted; attempt++) {
      const failed = await this.#limit(() => this.#attempt(event))
      if (failed === undefined) return
      reason = failed.reason
      if (attempt === 1) logger.warn({ url: shownUrl, seq: event.seq, reason }, 'webhook delivery failed; will retry')
      if (attempt >= attempts) return this.#giveUp(event, attempt, reason)
      const backoffMs = pauseMs(attempt, { initialMs: backoffInitialMs, maxMs: backoffMaxMs })
      await pause(clock, Math.max(backoffMs, Math.min(failed.retryAfterMs, maxRetryAfterMs)), this.#stopped.signal)
    }
    this.#giveUp(event, 0, reason)
  }

  async #attempt(event: StreamedEvent): Promise<FailedAttempt | undefined> {
    const { signal } = this.#stopped
    if (signal.aborted) return { reason: hostClosed, retryAfterMs: 0 }
    return sendEvent(event, `${this.#logID}-${event.seq}`, this.#settings, signal)
  }

  #giveUp(event: StreamedEvent, attempts: number, reason: string): void {
    const { clock, logger, onDeadLetter, shownUrl } = this.#settings
    const fields = { url: shownUrl, seq: event.seq, event: event.type, attempts, reason }
    logger.error(fields, 'webhook event not delivered; giving up')
    const failure = {
      type: 'WebhookFailed' as const,
      at: clock.now(),
      message: `event ${event.seq} (${event.type}) was not delivered to ${shownUrl}: ${reason}`,
      url: shownUrl,
      eventSeq: event.seq,
      reason,
    }
    this.#ownFailures.add(failure)
    internalsOf(this.#fleet)?.emit(failure)
    try {
      onDeadLetter?.(event, reason)
    } catch (error) {
      logger.error({ err: error }, 'onDeadLetter threw')
    }
  }

  #change(): Promise<void> {
    return new Promise((resolve) => this.#changeListeners.push(resolve))
  }

  #changed(): void {
    const listeners = this.#changeListeners
    this.#changeListeners = []
    for (const listener of listeners) listener()
  }
}

const hostClosed = 'this host has closed'

/** Events with the same key are delivered in order. */
function orderingKey(event: StreamedEvent): string {
  if ('server' in event) return `server ${keyOf(event.server)}`
  return 'build' in event ? `build ${keyOf(event.build)}` : ''
}

/** Resolves after `ms`, or as soon as the signal fires. */
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

interface FailedAttempt {
  readonly reason: string
  /** Delay from the receiver's `Retry-After` header, or 0 if there is none. */
  readonly retryAfterMs: number
}

/** Makes one attempt. `id` is the same for every attempt to deliver an event. Resolves with undefined on success. Never rejects. */
async function sendEvent(
  event: StreamedEvent,
  id: string,
  { url, headers, key, timeoutMs, clock }: WebhookSettings,
  stopped: AbortSignal,
): Promise<FailedAttempt | undefined> {
  const timestamp = Math.floor(clock.now() / 1000)
  const body = JSON.stringify(event)
  const attempt = new AbortController()
  const cancelTimeout = clock.after(timeoutMs, () =>
    attempt.abort(new Error(`no response within ${timeoutMs / 1000} s`)),
  )
  const onStopped = () => attempt.abort(stopped.reason)
  if (stopped.aborted) onStopped()
  stopped.addEventListener('abort', onStopped)
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
      signal: attempt.signal,
    })
    await response.body?.cancel()
    if (response.ok) return undefined
    const seconds = Number(response.headers.get('retry-after') ?? 0)
    return { reason: `the receiver answered with ${response.status}`, retryAfterMs: seconds > 0 ? seconds * 1000 : 0 }
  } catch (error) {
    return { reason: fetchReason(error), retryAfterMs: 0 }
  } finally {
    cancelTimeout()
    stopped.removeEventListener('abort', onStopped)
  }
}

// Signs and verifies webhooks with the headers that Standard Webhooks (https://www.standardwebhooks.com) defines; libraries
// for them exist in many languages. Pure, except that verification reads the clock.

const webhookHeaders = Object.freeze({
  id: 'webhook-id',
  timestamp: 'webhook-timestamp',
  signature: 'webhook-signature',
})

/** Returns `v1,<base64>`, the signature of `id.timestamp.body`. `timestamp` is in seconds. */
function signWebhook(key: Uint8Array, id: string, timestamp: number, body: string): string {
  return `v1,${createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64')}`
}

const minSecretBytes = 16

/**
 * `secret` is `whsec_` followed by base64, as in Standard Webhooks, or any other text. Throws `invalid` if it is too short.
 */
function webhookKey(secret: string): Uint8Array {
  const key = secret.startsWith('whsec_') ? Buffer.from(secret.slice(6), 'base64') : Buffer.from(secret)
  if (key.length >= minSecretBytes) return key
  throw new FleetError(
    'invalid',
    `webhook: secret must have at least ${minSecretBytes} bytes; generate one with openssl rand -hex 32`,
  )
}

export interface VerifyOptions {
  /** The request's headers: Node's headers, with names in lower case, or a web-standard `Headers`. */
  readonly headers: Headers | Readonly<Record<string, string | readonly string[] | undefined>>
  /** The raw body, before any parsing. */
  readonly body: string | Uint8Array
  /** One secret, or several during a rotation. A signature is valid if one of them matches. */
  readonly secret: string | readonly string[]
  /** Maximum difference between the delivery's timestamp and the local clock. Default 5 minutes. */
  readonly toleranceMs?: number
  /** The current wall time in ms. Default: the system clock. */
  readonly now?: number
}

const signatureOptionTypes: OptionTypes<VerifyOptions> = {
  headers: required(anObject),
  body: required(anything),
  secret: required({ must: 'must be a string or an array of strings', is: isSecret }),
  toleranceMs: aNumber,
  now: aNumber,
}

function isSecret(value: unknown): boolean {
  return typeof value === 'string' || (strings.is(value) && Array.isArray(value) && value.length > 0)
}

/**
 * Returns the delivered event. Throws `unauthenticated` if no secret matches the signature or the timestamp is outside the
 * tolerance, and `invalid` if the body is not the raw one or not an event. The same event may be delivered more than once, each time with
 * the same `webhook-id`.
 */
export function verifyWebhook(options: VerifyOptions): StreamedEvent {
  checkOptions('verifyWebhook', options, signatureOptionTypes)
  const { headers, body, secret, toleranceMs = 300_000, now = systemClock.now() } = options
  const id = headerOf(headers, webhookHeaders.id)
  const timestamp = Number(headerOf(headers, webhookHeaders.timestamp))
  const signatures = headerOf(headers, webhookHeaders.signature).split(' ')
  if (!(Math.abs(now - timestamp * 1000) <= toleranceMs)) {
    throw new FleetError('unauthenticated', 'the timestamp of this webhook is missing or out of tolerance')
  }
  if (typeof body !== 'string' && !isBytes(body)) {
    throw new FleetError('invalid', 'body must be the raw text or bytes of the webhook, for example from express.raw()')
  }
  const text = typeof body === 'string' ? body : Buffer.from(body).toString()
  const secrets = typeof secret === 'string' ? [secret] : secret
  const expected = secrets.map((each) => signWebhook(webhookKey(each), id, timestamp, text))
  if (!expected.some((one) => signatures.some((other) => sameText(one, other)))) {
    throw new FleetError('unauthenticated', 'no secret matches the signature of this webhook')
  }
  const event = parsed(text)
  if (!isEvent(event)) throw new FleetError('invalid', 'the body of this webhook is not an event')
  return event
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    throw new FleetError('invalid', `the body of this webhook is signed, but is not JSON: ${messageOf(error)}`, {
      cause: error,
    })
  }
}

function isHeaders(headers: VerifyOptions['headers']): headers is Headers {
  return typeof headers.get === 'function'
}

function headerOf(headers: VerifyOptions['headers'], name: string): string {
  const value: unknown = isHeaders(headers) ? headers.get(name) : headers[name]
  return typeof value === 'string' ? value : ''
}

function sameText(one: string, other: string): boolean {
  const [a, b] = [Buffer.from(one), Buffer.from(other)]
  return a.length === b.length && timingSafeEqual(a, b)
}

/** A shallow check is enough: the body is signed, so its sender is trusted. */
function isEvent(value: unknown): value is StreamedEvent {
  return isObject(value) && typeof value['type'] === 'string' && typeof value['seq'] === 'number'
}
