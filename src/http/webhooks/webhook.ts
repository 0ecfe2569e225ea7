/**
 * Delivers a fleet's events to a URL: signed, at least once, and in order for each server. Failed deliveries are retried
 * with back-off; after the last attempt the event becomes a dead letter. The queue is bounded: while it is full, further
 * events stay in the fleet's log. If the log drops some of them meanwhile, one `EventsDropped` is delivered instead.
 */
import type { Clock } from '../../contracts/clock.js'
import { messageOf } from '../../contracts/errors.js'
import { checkFleet } from '../../contracts/option-checks.js'
import { internalsOf } from '../../fleet/internals.js'
import { pauseMs } from '../../rules/lifecycle/backoff.js'
import { isError } from '../../rules/model/realms.js'
import { keyOf } from '../../rules/model/resources.js'
import { limiter } from '../../util/limiter.js'
import { logIDOf, type ReadableFleet, type StreamedEvent } from '../api/event-stream.js'
import { resolveWebhookOptions, type WebhookOptions, type WebhookSettings } from './options.js'
import { signWebhook, webhookHeaders } from './signature.js'

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
    return { reason: reasonOf(error), retryAfterMs: 0 }
  } finally {
    cancelTimeout()
    stopped.removeEventListener('abort', onStopped)
  }
}

/** `fetch` itself only reports `fetch failed`; the reason is in the error's cause. */
function reasonOf(error: unknown): string {
  return isError(error) && error.cause !== undefined ? messageOf(error.cause) : messageOf(error)
}
