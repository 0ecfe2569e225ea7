/**
 * The endpoint for game servers: implements the calls in the PlayFab GSDK protocol. Uses plain `node:http` and does constant
 * work per call, since every game server calls once a second.
 *
 * Temporary failures are answered with 200, since some SDKs stop permanently after a few errors.
 */
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import { backgroundClock } from '../contracts/clock.js'
import { messageOf } from '../contracts/errors.js'
import { type Logger, loggerOf } from '../contracts/logger.js'
import { aFunction, aLogger, checkFleet, checkOptions } from '../contracts/option-checks.js'
import { closeServer, discardRest, httpServer, listen, type Listening } from '../platform/http-server.js'
import { watchOpenFiles } from '../platform/open-files.js'
import { requestTurns } from '../platform/turns.js'
import { type Heartbeat, type HeartbeatAnswer, heartbeatStart, readHeartbeat } from '../rules/game/heartbeat.js'
import { answerText, refuse, send } from './answer-text.js'
import { type Body, HeartbeatBodies, maxHeartbeatBytes } from './game-bodies.js'
import { dataRequests, gameRequestHandler, sessionRequests } from './game-requests.js'
import type { AgentTarget, HeartbeatTarget, MountedRequest } from './heartbeat-target.js'

export interface AgentListenerOptions {
  /**
   * Return true to admit a call; any other value results in 403. The secret in the path already identifies each game server,
   * so use this for additional rules, such as allowed networks. An SDK may stop permanently after a 403.
   */
  readonly authorize?: (request: IncomingMessage, operation: AgentOperation) => boolean | Promise<boolean>
  /** Logs heartbeats that the fleet failed to process. Default: stderr; false: none. */
  readonly logger?: Logger | false
}

export type AgentOperation = 'heartbeat' | 'gsdkInfo' | 'updateData' | 'allocateSelf'

/** The agent as a `node:http` listener. Also works behind Express and a body parser. Returns 404 for unknown paths. */
export function agentListener(fleet: HeartbeatTarget, options: AgentListenerOptions = {}): RequestListener {
  checkFleet('agentListener', fleet, agentMembers)
  checkOptions('agentListener', options, { authorize: aFunction, logger: aLogger })
  const target: AgentTarget = isAgentTarget(fleet) ? fleet : answering(fleet)
  const { authorize } = options
  const logger = loggerOf(options.logger)
  const handlers = {
    heartbeat: heartbeatHandler(target, logger),
    updateData: gameRequestHandler(target, dataRequests(target), logger),
    allocateSelf: gameRequestHandler(target, sessionRequests(target), logger),
  }

  const knows = (id: string) => {
    try {
      return target.knowsServer(id)
    } catch (error) {
      logger.error({ err: error }, 'server lookup failed')
      return true
    }
  }
  const takesTurn = onePerTurn()

  const serve = (request: MountedRequest, response: ServerResponse) => {
    const call = callOf(request.originalUrl ?? request.url ?? '/')
    if (call === undefined) return refuse(response, 404, 'unknown path; heartbeats go to /v1/sessionHosts/{id}')
    if (call === malformed) return refuse(response, 400, 'the id in the path is not validly percent-encoded')
    const { method } = request
    const allowed = call === gsdkInfo ? ['POST'] : call.operation === 'heartbeat' ? ['PATCH', 'POST'] : ['PATCH']
    if (method === undefined || !allowed.includes(method)) {
      response.setHeader('Allow', allowed.join(', '))
      return refuse(response, 405, `${method} is not allowed here`)
    }
    if (call === gsdkInfo) {
      discardRest(request)
      return send(response, 200, '')
    }
    const isServer = knows(call.id)
    const handle = () => handlers[call.operation](call.id, request, response, isServer)
    return takesTurn(isServer ? call.id : stranger) ? handle() : void laterIn(response, handle)
  }
  if (authorize === undefined) return serve

  const isAuthorized = async (request: MountedRequest, operation: AgentOperation) => {
    try {
      const verdict: unknown = await authorize(request, operation)
      return verdict === true
    } catch (error) {
      logger.error({ err: error }, 'agent authorization check failed; call rejected')
      return false
    }
  }
  return (request: MountedRequest, response) => {
    const call = callOf(request.originalUrl ?? request.url ?? '/')
    if (call === undefined || call === malformed) return serve(request, response)
    void isAuthorized(request, operationOf(call)).then((authorized) => {
      if (authorized) return serve(request, response)
      refuse(response, 403, 'forbidden by the authorize option of the agent')
      discardRest(request)
    })
  }
}

/** All callers whose id belongs to no server share one turn. */
const stranger = ''

/**
 * Returns a function that returns true for the first request of each server in a turn of the event loop. Further ones, and those of all
 * strangers but one, wait for what is left of a turn: so neither strangers nor one game can hold up the heartbeats of the others.
 */
function onePerTurn(): (id: string) => boolean {
  const had = new Set<string>()
  let turn = -1
  return (id) => {
    const current = requestTurns.current()
    if (current !== turn) {
      turn = current
      had.clear()
    } else if (had.has(id)) return false
    had.add(id)
    return true
  }
}

async function laterIn(response: ServerResponse, handle: () => void): Promise<void> {
  await requestTurns.take()
  if (!response.destroyed) handle()
}

const agentMembers: readonly (keyof HeartbeatTarget)[] = [
  'heartbeat',
  'knowsServer',
  'parkHeartbeat',
  'updateOwnData',
  'allocateOwnServer',
]

/** Any fleet that `createFleet` returned. */
function isAgentTarget(fleet: HeartbeatTarget): fleet is AgentTarget {
  return 'forwardHeartbeat' in fleet
}

/** Passes nothing on. */
export function answering(fleet: HeartbeatTarget): AgentTarget {
  return {
    heartbeat: (id, heartbeat) => fleet.heartbeat(id, heartbeat),
    knowsServer: (id) => fleet.knowsServer(id),
    parkHeartbeat: (id, parked) => fleet.parkHeartbeat(id, parked),
    updateOwnData: (id, change) => fleet.updateOwnData(id, change),
    allocateOwnServer: (id, request) => fleet.allocateOwnServer(id, request),
    forwardHeartbeat: undefined,
  }
}

/** One of so many answers that another host has given closes its connection. */
const movingShare = 4

/** Serves heartbeats. A body is read only as far as its sender may have it read: see `game-bodies.ts`. */
function heartbeatHandler(target: AgentTarget, logger: Logger) {
  const bodies = new HeartbeatBodies()
  let forwarded = 0
  const answerHeartbeat = (id: string, heartbeat: Heartbeat, request: IncomingMessage, response: ServerResponse) => {
    let answer: HeartbeatAnswer
    try {
      answer = target.heartbeat(id, heartbeat)
      if (mayBeParked(heartbeat, answer)) {
        const waitMs = preferredWaitMs(request.headers['prefer'])
        const cancel = target.parkHeartbeat(id, { waitMs, answer: (later) => sendAnswer(response, later) })
        if (cancel) return void response.once('close', cancel)
      }
    } catch (error) {
      logger.error({ err: error }, 'heartbeat failed')
      answer = continueAnswer
    }
    return sendAnswer(response, answer)
  }

  const answerBody = (id: string, body: Body, request: IncomingMessage, response: ServerResponse) => {
    if (body === 'too large') return refuseBody(request, response)
    if (body === 'refused') {
      // The match of a game must not end because others send too much, so the answer is not Terminate.
      response.setHeader('Connection', 'close')
      sendAnswer(response, continueAnswer)
      return discardRest(request)
    }
    if ('start' in body) {
      const heartbeat = heartbeatStart(body.start)
      if (heartbeat === undefined) sendAnswer(response, continueAnswer)
      else answerHeartbeat(id, heartbeat, request, response)
      return discardRest(request)
    }
    let parsed: unknown
    try {
      parsed = JSON.parse(body.text)
    } catch (error) {
      return refuse(response, 400, `body is not JSON: ${messageOf(error)}`)
    }
    return answerHeartbeat(id, readHeartbeat(parsed), request, response)
  }

  /** Whether another host answers this heartbeat. */
  const isForwarded = (id: string, body: Body, request: IncomingMessage, response: ServerResponse) => {
    if (target.forwardHeartbeat === undefined || typeof body === 'string' || !('text' in body)) return false
    const gone = new AbortController()
    const prefer = request.headers['prefer']?.toString()
    const call = { prefer, waitMs: preferredWaitMs(prefer), signal: gone.signal }
    const answer = target.forwardHeartbeat(id, body.text, call)
    if (answer === undefined) return false
    response.once('close', () => gone.abort())
    void answer.then((found) => {
      if (response.destroyed) return
      // Games move to the host that leads, if their connections can reach it, and not all at once.
      if (found && ++forwarded % movingShare === 0) response.setHeader('Connection', 'close')
      if (found) send(response, found.status, found.text)
      else sendAnswer(response, { ...continueAnswer, isElsewhere: true })
    })
    return true
  }

  return (id: string, request: MountedRequest, response: ServerResponse, isServer: boolean) => {
    if (request.readableDidRead) return answerHeartbeat(id, readHeartbeat(request.body), request, response)
    const declaredBytes = Number(request.headers['content-length'])
    if (declaredBytes > maxHeartbeatBytes) return refuseBody(request, response)
    const done = (body: Body) => {
      if (!isForwarded(id, body, request, response)) answerBody(id, body, request, response)
    }
    return isServer ? bodies.ofServer(id, request, done) : bodies.ofStranger(request, done)
  }
}

/** True if the game is waiting for its session: an answer can only change to one that it acts on. */
function mayBeParked({ state }: Heartbeat, { operation, isElsewhere, sessionConfig }: HeartbeatAnswer): boolean {
  return state === 'StandingBy' && operation === 'Continue' && !isElsewhere && sessionConfig === undefined
}

/** Reads `Prefer: wait=<seconds>` (RFC 7240). Returns 0 if the game did not send it. */
function preferredWaitMs(prefer: string | string[] | undefined): number {
  if (prefer === undefined) return 0
  const seconds = /(?:^|,)\s*wait\s*=\s*"?(\d{1,6})/i.exec(String(prefer))?.[1]
  return seconds === undefined ? 0 : Number(seconds) * 1_000
}

/** Sent if the fleet fails to process a heartbeat, since that must not end the game. */
const continueAnswer: HeartbeatAnswer = { operation: 'Continue', nextHeartbeatIntervalMs: 1_000 }

const gsdkInfo = Symbol('gsdkInfo')
const malformed = Symbol('malformed')
type GameCall = { readonly id: string; readonly operation: Exclude<AgentOperation, 'gsdkInfo'> }
type Call = GameCall | typeof gsdkInfo | typeof malformed | undefined

function operationOf(call: Exclude<Call, undefined | typeof malformed>): AgentOperation {
  if (call === gsdkInfo) return 'gsdkInfo'
  return call.operation
}

const heartbeatPrefix = '/v1/sessionHosts/'
const suffixes = { '/heartbeats': 'heartbeat', '/data': 'updateData', '/session': 'allocateSelf' } as const
const gsdkInfoPath = /^\/v1\/metrics\/[^/]+\/gsdkinfo\/?$/

/** Determines the call from the request target: `/v1/sessionHosts/{id}[/heartbeats]`, `/v1/sessionHosts/{id}/data`, `…/session` or `/v1/metrics/{id}/gsdkinfo`. */
function callOf(target: string): Call {
  const path = pathOf(target)
  if (!path.startsWith(heartbeatPrefix)) return gsdkInfoPath.test(path) ? gsdkInfo : undefined
  let end = path.endsWith('/') ? path.length - 1 : path.length
  let operation: GameCall['operation'] = 'heartbeat'
  for (const [suffix, named] of Object.entries(suffixes)) {
    if (!path.endsWith(suffix, end)) continue
    operation = named
    end -= suffix.length
    break
  }
  const id = path.slice(heartbeatPrefix.length, end)
  if (id === '' || id.includes('/')) return undefined
  if (!id.includes('%')) return { id, operation }
  try {
    return { id: decodeURIComponent(id), operation }
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

function refuseBody(request: IncomingMessage, response: ServerResponse): void {
  refuse(response, 413, `body is larger than ${maxHeartbeatBytes} bytes`)
  discardRest(request)
}

function sendAnswer(response: ServerResponse, answer: HeartbeatAnswer): void {
  if (answer.isElsewhere) response.setHeader('Connection', 'close')
  send(response, 200, answerText(answer))
}

export const defaultAgentPort = 56_001
export const defaultAgentHost = '127.0.0.1'
/** SDKs wait for each answer. */
const maxPipelined = 16

export interface StartAgentOptions extends AgentListenerOptions {
  readonly target: AgentTarget
  /** Default `127.0.0.1`. */
  readonly host?: string
  /** Default 56001; 0 picks a free port. */
  readonly port?: number
}

export interface Agent extends Listening {
  /** Stops listening, answers heartbeats in flight, and closes idle connections. Game servers retry by themselves. */
  close(): Promise<void>
}

/** Throws `port-in-use`, or `invalid` if the agent cannot listen on the host or port. */
export async function startAgent(options: StartAgentOptions): Promise<Agent> {
  const { target, host = defaultAgentHost, port = defaultAgentPort, logger } = options
  const withLogger = logger === undefined ? {} : { logger }
  const server = httpServer(agentListener(target, withLogger), { maxPipelined })
  const listening = await listen(server, { host, port, option: 'agent', ...withLogger })
  const stopWatching = watchOpenFiles(backgroundClock, loggerOf(logger))
  let closing: Promise<void> | undefined
  const close = () => {
    stopWatching()
    return closeServer(server)
  }
  return { ...listening, close: () => (closing ??= close()) }
}
