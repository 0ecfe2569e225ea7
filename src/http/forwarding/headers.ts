/** The headers of forwarded requests. */
import type { Caller, CallerKind } from '../../contracts/audit.js'
import { isObject } from '../../rules/validation/problem.js'
import { callerOf } from '../access/caller.js'
import type { Exchange } from '../core/exchange.js'

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
