/** What the hosts of a fleet agree on for forwarded requests: their headers, and which may be sent to a second host. */
import type { Caller, CallerKind } from '../../contracts/audit.js'
import type { LeaderLink } from '../../contracts/elector.js'
import { FleetError } from '../../contracts/errors.js'
import { isObject } from '../../rules/validation/problem.js'
import { callerOf, type Exchange } from '../core/exchange.js'
import { isIdempotentOperation, type Operation } from '../operations.js'

/** Who sent the request, as base64url of JSON. Trusted only on connections that prove the shared key. */
const callerHeader = 'Gamekeeper-Caller'
/** Of an answer: the host does not lead and has not begun to carry out the request, so it may be sent to another. */
export const notBegunHeader = 'Gamekeeper-Not-Begun'

/** What handlers read. Never the caller's credentials. */
const passedOn = ['accept', 'content-type', 'last-event-id', 'origin', 'traceparent', 'tracestate', 'baggage'] as const

export function headersFor(exchange: Exchange): Readonly<Record<string, string>> {
  const headers: Record<string, string> = {
    [callerHeader]: Buffer.from(JSON.stringify(callerOf(exchange))).toString('base64url'),
  }
  for (const name of passedOn) {
    const value = exchange.header(name)
    if (value !== undefined) headers[name] = value
  }
  return headers
}

const kinds: readonly CallerKind[] = ['host', 'token', 'certificate', 'anonymous']

export function readCaller(exchange: Exchange): Caller {
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
export function mayRepeat({ name, role }: Operation): boolean {
  return role !== 'manage' && isIdempotentOperation(name)
}

/** The next leader may do what this host could not, because it does not lead, or has stopped to meanwhile. */
export function isForNextLeader(error: unknown, link: LeaderLink): boolean {
  if (!FleetError.is(error)) return false
  return isElsewhere(error.code) || (error.code === 'unavailable' && !link.leads())
}

export function isElsewhere(code: string | undefined): boolean {
  return code === 'not-leader' || code === 'closed'
}
