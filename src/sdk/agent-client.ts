/**
 * Sends requests to the agent over a keep-alive connection and returns the text of each response. Knows HTTP, but not the
 * protocol. Its sockets and timers do not keep the game's process alive.
 */
import { Agent, request } from 'node:http'
import type { AgentAddress } from './config.js'
import { after } from './timers.js'
import { isError } from '../rules/model/realms.js'

const maxAnswerLength = 1024 * 1024

/** Lets the agent postpone its answer until it has news for the game. */
export interface Patience {
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
export class AgentError extends Error {
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
