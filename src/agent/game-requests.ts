/**
 * Handles requests from a game about its own server: to change its data, and to take it for a session. Each is answered once that is
 * durable. Unlike a heartbeat, a request that cannot be carried out is answered with an error, and the SDK decides whether to repeat it.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { type ErrorCode, FleetError, messageOf } from '../contracts/errors.js'
import type { Logger } from '../contracts/logger.js'
import { discardRest } from '../platform/http-server.js'
import type { OwnAllocationRequest } from '../rules/model/allocation-request.js'
import type { ServerDataUpdate } from '../rules/lifecycle/server-data.js'
import { ascii, send } from './answer-text.js'
import { type Body, HeartbeatBodies, maxHeartbeatBytes } from './game-bodies.js'
import type { AgentTarget, HeartbeatTarget, MountedRequest } from './heartbeat-target.js'

/** One kind of request. Its path is that of heartbeats, followed by `suffix`. */
interface GameRequestKind {
  readonly suffix: string
  /** The fleet validates the body. */
  readonly carryOut: (sessionHostId: string, body: unknown) => Promise<object>
}

export function dataRequests(target: HeartbeatTarget): GameRequestKind {
  return { suffix: '/data', carryOut: (id, body) => target.updateOwnData(id, body as ServerDataUpdate) }
}

export function sessionRequests(target: HeartbeatTarget): GameRequestKind {
  return { suffix: '/session', carryOut: (id, body) => target.allocateOwnServer(id, body as OwnAllocationRequest) }
}

/** How many requests of one kind and server may be in progress. A game that waits for each has one. */
const maxInProgress = 16

const statuses: Readonly<Partial<Record<ErrorCode, number>>> = {
  invalid: 400,
  'not-found': 404,
  'out-of-range': 409,
  'in-use': 409,
  'rate-limited': 429,
  unsupported: 501,
  'not-leader': 503,
  closed: 503,
  unavailable: 503,
  draining: 503,
  'none-standing-by': 503,
}

export function gameRequestHandler(target: AgentTarget, { suffix, carryOut }: GameRequestKind, logger: Logger) {
  const bodies = new HeartbeatBodies()
  const inProgress = new Map<string, number>()

  const begin = async (id: string, body: unknown): Promise<object> => {
    const count = inProgress.get(id) ?? 0
    if (count >= maxInProgress) {
      throw new FleetError('rate-limited', `${count} requests of this server are in progress; wait for them`)
    }
    inProgress.set(id, count + 1)
    try {
      return await carryOut(id, body)
    } finally {
      const left = (inProgress.get(id) ?? 1) - 1
      if (left === 0) inProgress.delete(id)
      else inProgress.set(id, left)
    }
  }

  const answer = (response: ServerResponse, result: Promise<object>) =>
    void result.then(
      (data) => send(response, 200, ascii(JSON.stringify(data))),
      (error: unknown) => {
        if (!FleetError.is(error)) logger.error({ err: error }, 'request of a game failed')
        fail(response, error)
      },
    )

  const forward = (id: string, text: string, response: ServerResponse): boolean => {
    const gone = new AbortController()
    const call = { prefer: undefined, waitMs: 0, signal: gone.signal, suffix }
    const answered = target.forwardHeartbeat?.(id, text, call)
    if (answered === undefined) return false
    response.once('close', () => gone.abort())
    void answered.then((found) => {
      if (response.destroyed) return
      if (found) send(response, found.status, found.text)
      else
        fail(
          response,
          new FleetError('unavailable', 'the leader has not answered; the request may have been carried out'),
        )
    })
    return true
  }

  const handleBody = (id: string, body: Body, request: IncomingMessage, response: ServerResponse) => {
    if (typeof body === 'string' || !('text' in body)) {
      // A host that does not lead cannot tell a server from a stranger, and reads little.
      response.setHeader('Connection', 'close')
      const isTooLarge = body === 'too large'
      const message = isTooLarge ? `body is larger than ${maxHeartbeatBytes} bytes` : 'this host cannot take the body'
      fail(response, new FleetError(isTooLarge ? 'invalid' : 'not-leader', message))
      return discardRest(request)
    }
    if (forward(id, body.text, response)) return
    try {
      const parsed: unknown = JSON.parse(body.text)
      answer(response, begin(id, parsed))
    } catch (error) {
      fail(response, new FleetError('invalid', `body is not JSON: ${messageOf(error)}`))
    }
  }

  return (id: string, request: MountedRequest, response: ServerResponse, isServer: boolean) => {
    if (request.readableDidRead) return answer(response, begin(id, request.body))
    const done = (body: Body) => handleBody(id, body, request, response)
    return isServer ? bodies.ofServer(id, request, done) : bodies.ofStranger(request, done)
  }
}

function fail(response: ServerResponse, error: unknown): void {
  const code = FleetError.is(error) ? error.code : 'internal'
  send(response, statuses[code] ?? 500, ascii(JSON.stringify({ error: messageOf(error), code })))
}
