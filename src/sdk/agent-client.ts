/**
 * Sends requests to the agent over a keep-alive connection and returns the text of each response. Knows HTTP, but not the
 * protocol. Its sockets and timers do not keep the game's process alive.
 */
import { Agent, request } from 'node:http'
import { systemClock } from '../contracts/clock.js'
import { errorCodes, FleetError, messageOf } from '../contracts/errors.js'
import type { OwnAllocation } from '../contracts/sessions.js'
import type { ServerData, ServerDataUpdate } from '../rules/lifecycle/server-data.js'
import type { OwnAllocationRequest } from '../rules/model/allocation-request.js'
import { isError } from '../rules/model/values.js'
import type { AgentAddress } from './config.js'
import { after } from './heartbeat-loop.js'

const maxAnswerLength = 1024 * 1024

/** Lets the agent postpone its answer until it has news for the game. */
interface Patience {
  /** How long the agent may take, in ms, in addition to the usual timeout. Agents that do not support this answer at once. */
  readonly waitMs: number
  /** Ends the request, which then rejects with the signal's reason. */
  readonly interrupted: AbortSignal
}

export class AgentClient {
  /** `host:port`, used in messages. */
  readonly name: string
  readonly #origin: URL
  readonly #id: string
  readonly #timeoutMs: number
  readonly #connections = new Agent({ keepAlive: true, maxSockets: 1 })
  readonly #changes = new Agent({ maxSockets: 4 })
  #closed = false

  constructor({ origin, sessionHostId }: AgentAddress, timeoutMs: number) {
    this.name = origin.host
    this.#origin = origin
    this.#id = encodeURIComponent(sessionHostId)
    this.#timeoutMs = timeoutMs
  }

  /** Resolves with the body of a 200 response. Otherwise rejects with an Error that says what happened. */
  heartbeat(body: object, patience?: Patience): Promise<string> {
    return this.#send('PATCH', `/v1/sessionHosts/${this.#id}`, body, 2, patience)
  }

  /** Sends this SDK's name and version. Resolves and rejects like `heartbeat`. */
  introduce(body: object): Promise<string> {
    return this.#send('POST', `/v1/metrics/${this.#id}/gsdkinfo`, body, 1)
  }

  /**
   * Changes the data of this server. Resolves with the answer, or rejects with an AgentError. On a connection of its own, because a heartbeat
   * may be held on the other one.
   */
  updateData(body: object): Promise<string> {
    return this.#send('PATCH', `/v1/sessionHosts/${this.#id}/data`, body, 1, undefined, this.#changes)
  }

  /** Takes this server for a session. Resolves and rejects like `updateData`. */
  allocateSelf(body: object): Promise<string> {
    return this.#send('PATCH', `/v1/sessionHosts/${this.#id}/session`, body, 1, undefined, this.#changes)
  }

  /** Aborts requests in flight. */
  close(): void {
    this.#closed = true
    this.#changes.destroy()
    this.#connections.destroy()
  }

  async #send(
    method: string,
    path: string,
    body: object,
    attempts: number,
    patience?: Patience,
    agent = this.#connections,
  ): Promise<string> {
    const call: Exchange = {
      method,
      url: new URL(path, this.#origin),
      body: JSON.stringify(body),
      agent,
      patience,
      timeoutMs: this.#timeoutMs + (patience?.waitMs ?? 0),
    }
    for (let attempt = 1; attempt <= attempts && !this.#closed; attempt++) {
      const answer = await exchange(call)
      if (answer !== staleConnection) return answer
    }
    throw new Error('the connection was closed')
  }
}

/** The agent answered with an error. */
class AgentError extends Error {
  /** The fleet's error code, if the agent gave one. */
  readonly code: string | undefined
  /** What the agent says about it, if it does. */
  readonly reason: string | undefined

  constructor(status: number, text: string) {
    super(`answered with status ${status}`)
    const { code, error } = fieldsOf(text)
    this.code = typeof code === 'string' ? code : undefined
    this.reason = typeof error === 'string' ? error : undefined
  }
}

function fieldsOf(text: string): { readonly code?: unknown; readonly error?: unknown } {
  try {
    const body: unknown = JSON.parse(text)
    return typeof body === 'object' && body !== null ? body : {}
  } catch {
    // A proxy may answer with a page: then the status alone says what happened.
    return {}
  }
}

/** The agent closed the keep-alive connection before it received the request. A retry opens a new connection. */
const staleConnection = Symbol('stale connection')

interface Exchange {
  readonly method: string
  readonly url: URL
  readonly body: string
  readonly agent: Agent
  readonly timeoutMs: number
  readonly patience: Patience | undefined
}

function exchange(call: Exchange): Promise<string | typeof staleConnection> {
  const { method, url, body, agent, timeoutMs, patience } = call
  return new Promise((resolve, reject) => {
    const headers = {
      'content-type': 'application/json',
      'content-length': Buffer.byteLength(body),
      ...(patience && { prefer: `wait=${Math.ceil(patience.waitMs / 1_000)}` }),
    }
    const outgoing = request(url, { method, agent, headers })
    const fail = (message: string) => {
      reject(new Error(message))
      outgoing.destroy()
    }
    const cancelTimeout = after(timeoutMs, () => {
      // Timers run before sockets: if the game blocked its process for long, the response may have arrived but not been
      // read.
      setImmediate(() => fail(`no answer within ${timeoutMs} ms`))
    })
    const interrupt = () => {
      const reason: unknown = patience?.interrupted.reason
      reject(isError(reason) ? reason : new Error('interrupted'))
      outgoing.destroy()
    }
    const settled = () => patience?.interrupted.removeEventListener('abort', interrupt)
    patience?.interrupted.addEventListener('abort', interrupt)
    let responded = false
    outgoing.on('socket', (socket) => socket.unref())
    outgoing.on('close', cancelTimeout)
    outgoing.on('close', settled)
    outgoing.on('error', (error) => {
      if (outgoing.reusedSocket && !responded && isReset(error)) resolve(staleConnection)
      else reject(error)
    })
    outgoing.on('response', (incoming) => {
      responded = true
      let text = ''
      incoming.setEncoding('utf8')
      incoming.on('data', (part: string) => {
        text += part
        if (text.length > maxAnswerLength) fail(`the answer is longer than ${maxAnswerLength} characters`)
      })
      incoming.on('error', reject)
      incoming.on('end', () => {
        settled()
        if (incoming.statusCode === 200) resolve(text)
        else reject(new AgentError(incoming.statusCode ?? 0, text))
      })
    })
    outgoing.end(body)
  })
}

function isReset(error: Error): boolean {
  return 'code' in error && (error.code === 'ECONNRESET' || error.code === 'EPIPE')
}

// Changes the data of the game's own server, or takes it for a session. Repeats a request only if that cannot carry it out twice.

/** The session for which a game takes its own server. `sessionID` has 1 to 128 visible characters. Default: one that the fleet makes. */
export type OwnSession = Pick<OwnAllocationRequest, 'sessionID' | 'sessionCookie' | 'initialPlayers'>

/** How long a change is repeated while no host can make it. */
const repeatMs = 15_000
const pauseMs = 500

/** Rejects with a FleetError: see `Gsdk.updateData`. */
export async function updateData(
  client: Pick<AgentClient, 'updateData' | 'name'>,
  change: ServerDataUpdate,
): Promise<ServerData> {
  return repeated<ServerData>(client.name, () => client.updateData(change), !isRelative(change))
}

/** Rejects with a FleetError: see `Gsdk.allocateSelf`. A repeated request finds the session. */
export async function allocateSelf(
  client: Pick<AgentClient, 'allocateSelf' | 'name'>,
  request: OwnAllocationRequest,
): Promise<string> {
  const { sessionID } = await repeated<OwnAllocation>(client.name, () => client.allocateSelf(request), true)
  return sessionID
}

/** `isRepeatable`: a request that has been carried out may be sent again. */
async function repeated<T>(agent: string, send: () => Promise<string>, isRepeatable: boolean): Promise<T> {
  const since = systemClock.elapsed()
  for (;;) {
    try {
      const answer: T = JSON.parse(await send())
      return answer
    } catch (error) {
      const failure = failureOf(error, agent)
      const mayRepeat = isUnmade(error) || (failure.code === 'unavailable' && isRepeatable)
      if (!mayRepeat || systemClock.elapsed() - since > repeatMs) throw failure
      await new Promise<void>((resolve) => void after(pauseMs, resolve))
    }
  }
}

/** True if the change counts again when it is made again. To add to a list what it has already changes nothing. */
function isRelative({ counters = {} }: ServerDataUpdate): boolean {
  return Object.values(counters).some((counter) => 'increment' in counter || 'decrement' in counter)
}

/** True if no host has carried it out, and one may soon: the backend may not have reported the address of the server yet. */
function isUnmade(error: unknown): boolean {
  const codes = ['not-leader', 'rate-limited', 'none-standing-by']
  if (error instanceof AgentError) return error.code !== undefined && codes.includes(error.code)
  return isError(error) && 'code' in error && error.code === 'ECONNREFUSED'
}

function failureOf(error: unknown, agent: string): FleetError {
  const named = error instanceof AgentError ? errorCodes.find((code) => code === error.code) : undefined
  if (error instanceof AgentError && named) return new FleetError(named, error.reason ?? error.message)
  const message = `the agent at ${agent} did not confirm the request: ${messageOf(error)}`
  return new FleetError('unavailable', message, { cause: error })
}
