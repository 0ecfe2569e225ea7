/** A webhook's options: defaults and validation. */
import { type Clock, systemClock } from '../../contracts/clock.js'
import { FleetError } from '../../contracts/errors.js'
import { checkEventType } from '../../contracts/events.js'
import type { FleetEventType } from '../../contracts/events.js'
import type { Logger } from '../../contracts/logger.js'
import { loggerOf } from '../../contracts/stderr-logger.js'
import {
  aClock,
  aFunction,
  aLogger,
  aNumber,
  anObject,
  aString,
  checkOptions,
  type OptionTypes,
  required,
  strings,
} from '../../contracts/option-checks.js'
import { shown } from '../../rules/validation/problem.js'
import type { StreamedEvent } from '../api/event-stream.js'
import { webhookKey } from './signature.js'

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

export type WebhookSettings = ReturnType<typeof resolveWebhookOptions>

/** Throws `invalid`, naming the bad option. */
export function resolveWebhookOptions(options: WebhookOptions) {
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
