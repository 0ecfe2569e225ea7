/** The routes as a listener for `node:http` and a middleware for frameworks with its request and response. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { notFound } from './http-response.js'
import { type NodeMatcher, pathOf, sendResponse } from './node-exchange.js'

export type NodeHandler = (request: IncomingMessage, response: ServerResponse, next?: (error?: unknown) => void) => void

/** Leaves a path that is not one of the routes to `next`; without `next` it is 404. */
export function nodeHandler(match: NodeMatcher): NodeHandler {
  return (request, response, next) => {
    const matched = match(request, response)
    if (matched !== undefined) {
      // Only writing to the client can fail here.
      matched
        .respond()
        .then((answer) => matched.send(answer))
        .catch(() => response.destroy())
    } else if (next !== undefined) next()
    else void sendResponse(request, response, notFound(pathOf(request)))
  }
}
