/**
 * The endpoint for game servers: implements the calls in the PlayFab GSDK protocol. Uses plain `node:http` and does constant
 * work per call, since every game server calls once a second. Needs only one function from the fleet.
 *
 * Temporary failures are answered with 200, since some SDKs stop permanently after a few errors.
 */
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import { messageOf } from '../contracts/errors.js'
import { type Logger, silentLogger } from '../contracts/logger.js'
import { discardRest } from '../platform/http-server.js'
import { type Heartbeat, type HeartbeatAnswer, readHeartbeat } from '../rules/game/heartbeat.js'
import { answerText, ascii } from './answer.js'

/** The part of a fleet that the agent uses. */
export interface HeartbeatTarget {
  heartbeat(sessionHostId: string, heartbeat: Heartbeat): HeartbeatAnswer
}

export interface AgentListenerOptions {
  /**
   * Return true to admit a call; any other value results in 403. The secret in the path already identifies each game server,
   * so use this for additional rules, such as allowed networks. An SDK may stop permanently after a 403.
   */
  readonly authorize?: (request: IncomingMessage, operation: AgentOperation) => boolean | Promise<boolean>
  /** Logs heartbeats that the fleet failed to process. Default: silent. */
  readonly logger?: Logger
}

export type AgentOperation = 'heartbeat' | 'gsdkInfo'

/** Maximum size of a heartbeat's body: enough for about 5,000 players with GUIDs as ids. */
export const maxHeartbeatBytes = 256 * 1024

/** The agent as a `node:http` listener. Also works behind Express and a body parser. Returns 404 for unknown paths. */
export function agentListener(target: HeartbeatTarget, options: AgentListenerOptions = {}): RequestListener {
  const { authorize, logger = silentLogger } = options

  const answerHeartbeat = (id: string, body: unknown, response: ServerResponse) => {
    let answer: HeartbeatAnswer
    try {
      answer = target.heartbeat(id, readHeartbeat(body))
    } catch (error) {
      logger.error({ err: error }, 'heartbeat failed')
      answer = continueAnswer
    }
    if (answer.isElsewhere) response.setHeader('Connection', 'close')
    return send(response, 200, answerText(answer))
  }

  const serve = (request: MountedRequest, response: ServerResponse) => {
    const call = callOf(request.originalUrl ?? request.url ?? '/')
    if (call === undefined) return refuse(response, 404, 'unknown path; heartbeats go to /v1/sessionHosts/{id}')
    if (call === malformed) return refuse(response, 400, 'the id in the path is not validly percent-encoded')
    const { method } = request
    if (method !== 'POST' && (method !== 'PATCH' || call === gsdkInfo)) {
      response.setHeader('Allow', call === gsdkInfo ? 'POST' : 'PATCH, POST')
      return refuse(response, 405, `${method} is not allowed here`)
    }
    if (call === gsdkInfo) {
      discardRest(request)
      return send(response, 200, '')
    }
    if (request.readableDidRead) return answerHeartbeat(call.id, request.body, response)
    return readBody(request, response, (text) => {
      let body: unknown
      try {
        body = JSON.parse(text)
      } catch (error) {
        return refuse(response, 400, `body is not JSON: ${messageOf(error)}`)
      }
      return answerHeartbeat(call.id, body, response)
    })
  }
  if (authorize === undefined) return serve

  const isAuthorized = async (request: MountedRequest, operation: AgentOperation) => {
    try {
      const verdict: unknown = await authorize(request, operation)
      return verdict === true
    } catch (error) {
      logger.error({ err: error }, 'authorization check of the agent failed; the call was refused')
      return false
    }
  }
  return (request: MountedRequest, response) => {
    const call = callOf(request.originalUrl ?? request.url ?? '/')
    if (call === undefined || call === malformed) return serve(request, response)
    void isAuthorized(request, call === gsdkInfo ? 'gsdkInfo' : 'heartbeat').then((authorized) => {
      if (authorized) return serve(request, response)
      refuse(response, 403, 'forbidden by the authorize option of the agent')
      discardRest(request)
    })
  }
}

/** With a mount path, Express rewrites `url` and keeps the original in `originalUrl`. A body parser sets `body`. */
interface MountedRequest extends IncomingMessage {
  readonly originalUrl?: string
  readonly body?: unknown
}

/** Sent if the fleet fails to process a heartbeat, since that must not end the game. */
const continueAnswer: HeartbeatAnswer = { operation: 'Continue', nextHeartbeatIntervalMs: 1_000 }

const gsdkInfo = Symbol('gsdkInfo')
const malformed = Symbol('malformed')
type Call = { readonly id: string } | typeof gsdkInfo | typeof malformed | undefined

const heartbeatPrefix = '/v1/sessionHosts/'
const heartbeatSuffix = '/heartbeats'
const gsdkInfoPath = /^\/v1\/metrics\/[^/]+\/gsdkinfo\/?$/

/** Determines the call from the request target: `/v1/sessionHosts/{id}[/heartbeats]` or `/v1/metrics/{id}/gsdkinfo`. */
function callOf(target: string): Call {
  const path = pathOf(target)
  if (!path.startsWith(heartbeatPrefix)) return gsdkInfoPath.test(path) ? gsdkInfo : undefined
  let end = path.endsWith('/') ? path.length - 1 : path.length
  if (path.endsWith(heartbeatSuffix, end)) end -= heartbeatSuffix.length
  const id = path.slice(heartbeatPrefix.length, end)
  if (id === '' || id.includes('/')) return undefined
  if (!id.includes('%')) return { id }
  try {
    return { id: decodeURIComponent(id) }
  } catch {
    return malformed
  }
}

/** Returns the target without its query. If the target is absolute, also removes the scheme and host. */
function pathOf(target: string): string {
  const start = target.startsWith('/') ? 0 : Math.max(0, target.indexOf('/', target.indexOf('://') + 3))
  const query = target.indexOf('?', start)
  return query < 0 ? target.slice(start) : target.slice(start, query)
}

/**
 * Passes the whole body to `done` as text. Does not call `done` if the client disconnects early or the body is too large.
 */
function readBody(request: IncomingMessage, response: ServerResponse, done: (text: string) => void): void {
  let first: Buffer | undefined
  let more: Buffer[] | undefined
  let bytes = 0
  const onData = (chunk: Buffer) => {
    bytes += chunk.length
    if (bytes > maxHeartbeatBytes) {
      request.off('data', onData).off('end', onEnd)
      refuse(response, 413, `body is larger than ${maxHeartbeatBytes} bytes`)
      discardRest(request)
    } else if (first === undefined) first = chunk
    else (more ??= [first]).push(chunk)
  }
  const onEnd = () => done(more === undefined ? (first?.toString() ?? '') : Buffer.concat(more).toString())
  request.on('data', onData).on('end', onEnd)
}

function refuse(response: ServerResponse, status: number, message: string): void {
  send(response, status, ascii(JSON.stringify({ error: message })))
}

/** `text` must be ASCII: its length is used as the length in bytes. */
function send(response: ServerResponse, status: number, text: string): void {
  response.writeHead(status, {
    'Content-Type': 'application/json',
    'Content-Length': text.length,
  })
  response.end(text)
}
