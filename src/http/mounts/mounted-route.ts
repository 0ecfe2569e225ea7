/** Finds the handler of a request for frameworks that write the answers themselves, where they have mounted the routes. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Answer } from '../core/exchange.js'
import { NodeExchange } from '../core/node-exchange.js'
import type { Find } from '../core/routing.js'

export interface Found {
  readonly exchange: NodeExchange
  /** Never rejects. */
  answer(): Promise<Answer>
}

/** Undefined for a path that is not below `prefix`, or not of the routes. */
export function findBelow(
  prefix: string,
  find: Find,
  request: IncomingMessage,
  response: ServerResponse,
): Found | undefined {
  const { url = '/' } = request
  const queryAt = url.indexOf('?')
  const whole = queryAt < 0 ? url : url.slice(0, queryAt)
  const above = prefix.replace(/\/$/, '')
  if (!whole.startsWith(`${above}/`)) return undefined
  const path = decoded(whole.slice(above.length), decodeURI)
  const match = find(path)
  if (match === undefined) return undefined
  const params = Object.fromEntries(
    Object.entries(match.params).map(([name, value]) => [name, decoded(value, decodeURIComponent)]),
  )
  const exchange = new NodeExchange(request, response, queryAt < 0 ? '' : url.slice(queryAt + 1), params, path)
  return { exchange, answer: () => match.value(exchange) }
}

/** What is not validly encoded stays as it is. */
function decoded(text: string, decode: (text: string) => string): string {
  if (!text.includes('%')) return text
  try {
    return decode(text)
  } catch {
    return text
  }
}
