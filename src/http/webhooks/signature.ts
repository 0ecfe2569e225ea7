/**
 * Signs and verifies webhooks with the headers that Standard Webhooks (https://www.standardwebhooks.com) defines; libraries
 * for them exist in many languages. Pure, except that verification reads the clock.
 */
import { createHmac, timingSafeEqual } from 'node:crypto'
import { systemClock } from '../../contracts/clock.js'
import { FleetError, messageOf } from '../../contracts/errors.js'
import {
  aNumber,
  anObject,
  anything,
  checkOptions,
  type OptionTypes,
  required,
  strings,
} from '../../contracts/option-checks.js'
import { isObject } from '../../rules/validation/problem.js'
import type { StreamedEvent } from '../api/event-stream.js'
import { isBytes } from '../../rules/model/realms.js'

export const webhookHeaders = Object.freeze({
  id: 'webhook-id',
  timestamp: 'webhook-timestamp',
  signature: 'webhook-signature',
})

/** Returns `v1,<base64>`, the signature of `id.timestamp.body`. `timestamp` is in seconds. */
export function signWebhook(key: Uint8Array, id: string, timestamp: number, body: string): string {
  return `v1,${createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64')}`
}

const minSecretBytes = 16

/**
 * `secret` is `whsec_` followed by base64, as in Standard Webhooks, or any other text. Throws `invalid` if it is too short.
 */
export function webhookKey(secret: string): Uint8Array {
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

const optionTypes: OptionTypes<VerifyOptions> = {
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
  checkOptions('verifyWebhook', options, optionTypes)
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
