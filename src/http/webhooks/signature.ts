/**
 * How a webhook says that it is genuine: the three headers of Standard Webhooks (https://www.standardwebhooks.com), whose
 * libraries in other languages verify them too. Pure but for the reader's clock.
 */
import { createHmac, timingSafeEqual } from 'node:crypto'
import { systemClock } from '../../contracts/clock.js'
import { FleetError } from '../../contracts/errors.js'
import { isObject } from '../../rules/validation/problem.js'
import type { StreamedEvent } from '../api/event-stream.js'

export const webhookHeaders = Object.freeze({
  id: 'webhook-id',
  timestamp: 'webhook-timestamp',
  signature: 'webhook-signature',
})

/** `v1,<base64>` over `id.timestamp.body`; the time in seconds. */
export function signWebhook(key: Uint8Array, id: string, timestamp: number, body: string): string {
  return `v1,${createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64')}`
}

const leastBytes = 16

/** `whsec_` and base64, as those libraries have it, or any other text. Throws `invalid` for one that is too short. */
export function webhookKey(secret: string): Uint8Array {
  const key = secret.startsWith('whsec_') ? Buffer.from(secret.slice(6), 'base64') : Buffer.from(secret)
  if (key.length >= leastBytes) return key
  throw new FleetError('invalid', `a webhook's secret must have at least ${leastBytes} bytes: openssl rand -hex 32`)
}

export interface VerifyOptions {
  /** As they came; names in lower case, as Node has them, or a web standard `Headers`. */
  readonly headers: Headers | Readonly<Record<string, string | readonly string[] | undefined>>
  /** The body as it came: not parsed, and written anew. */
  readonly body: string | Uint8Array
  /** Several while one replaces the other. */
  readonly secret: string | readonly string[]
  /** How old a delivery may be, or how far ahead of this clock. Default 5 minutes. */
  readonly toleranceMs?: number
  /** Wall time in ms. Default: now. */
  readonly now?: number
}

/**
 * The event that a webhook delivers. Throws `unauthenticated` when the signature is not that of any secret or is too old,
 * `invalid` for a body that is not what came.
 * The same event may come more than once: its `webhook-id` is the same then.
 */
export function verifyWebhook(options: VerifyOptions): StreamedEvent {
  const { headers, body, secret, toleranceMs = 300_000, now = systemClock.now() } = options
  const id = headerOf(headers, webhookHeaders.id)
  const timestamp = Number(headerOf(headers, webhookHeaders.timestamp))
  const given = headerOf(headers, webhookHeaders.signature).split(' ')
  if (!(Math.abs(now - timestamp * 1000) <= toleranceMs)) {
    throw new FleetError('unauthenticated', 'the time of this webhook is too far from now')
  }
  if (typeof body !== 'string' && !(body instanceof Uint8Array)) {
    const how = 'before any parser, as express.raw() gives it'
    throw new FleetError('invalid', `the body of a webhook must be text or bytes as it came, ${how}`)
  }
  const text = typeof body === 'string' ? body : Buffer.from(body).toString()
  const secrets = typeof secret === 'string' ? [secret] : secret
  const expected = secrets.map((each) => signWebhook(webhookKey(each), id, timestamp, text))
  if (!expected.some((one) => given.some((other) => sameText(one, other)))) {
    throw new FleetError('unauthenticated', 'the signature of this webhook is not ours')
  }
  const event: unknown = JSON.parse(text)
  if (!isEvent(event)) throw new FleetError('invalid', 'this webhook holds no event')
  return event
}

function headerOf(headers: VerifyOptions['headers'], name: string): string {
  const value: unknown = headers instanceof Headers ? headers.get(name) : headers[name]
  return typeof value === 'string' ? value : ''
}

function sameText(one: string, other: string): boolean {
  const [a, b] = [Buffer.from(one), Buffer.from(other)]
  return a.length === b.length && timingSafeEqual(a, b)
}

/** Whoever has signed it has made it of an event. */
function isEvent(value: unknown): value is StreamedEvent {
  return isObject(value) && typeof value['type'] === 'string' && typeof value['seq'] === 'number'
}
