/** The routes as a `node:http` listener that also works as middleware in frameworks that use Node's request and response. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { notFound } from './http-response.js'
import { type NodeExchange, type NodeMatcher, pathOf, sendResponse } from './node-exchange.js'

export type NodeHandler = (request: IncomingMessage, response: ServerResponse, next?: (error?: unknown) => void) => void

/** Passes paths that match no route to `next`; without `next` they get 404. */
export function nodeHandler(match: NodeMatcher): NodeHandler {
  return (request, response, next) => {
    const matched = match(request, response)
    if (matched !== undefined) void answer(matched, response)
    else if (next !== undefined) next()
    else void sendResponse(request, response, notFound(pathOf(request)))
  }
}

async function answer(matched: NodeExchange, response: ServerResponse): Promise<void> {
  try {
    const streamed = matched.send(await matched.respond())
    if (streamed !== undefined) await streamed
  } catch {
    // Handlers never reject, so only writing to the client can fail here.
    response.destroy()
  }
}
