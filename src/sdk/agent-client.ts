/**
 * Sends one request to the agent and reads its answer, over a connection that is kept. Knows HTTP and nothing of what
 * is said. Its sockets and timers do not keep the game's process alive.
 */
import { Agent, request } from 'node:http'
import type { AgentAddress } from './config.js'
import { after } from './timers.js'

export interface AgentClient {
  /** `host:port`, for messages. */
  readonly name: string
  /** Resolves with the body of a 200. Rejects, with a sentence that says what happened, on anything else. */
  heartbeat(body: object): Promise<string>
  /** Says once which SDK this is. */
  introduce(body: object): Promise<string>
  /** Ends what is in flight. */
  close(): void
}

const maxAnswerLength = 1024 * 1024

export function createAgentClient(address: AgentAddress, timeoutMs: number): AgentClient {
  const id = encodeURIComponent(address.sessionHostId)
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  let closed = false

  async function send(method: string, path: string, body: object, attempts: number): Promise<string> {
    const url = new URL(path, address.origin)
    const text = JSON.stringify(body)
    for (let attempt = 1; attempt <= attempts && !closed; attempt++) {
      const answer = await exchange(method, url, text, agent, timeoutMs)
      if (answer !== staleConnection) return answer
    }
    throw new Error('the connection was closed')
  }

  return {
    name: address.origin.host,
    heartbeat: (body) => send('PATCH', `/v1/sessionHosts/${id}`, body, 2),
    introduce: (body) => send('POST', `/v1/metrics/${id}/gsdkinfo`, body, 1),
    close() {
      closed = true
      agent.destroy()
    },
  }
}

/** The agent had closed the kept connection before it got the request: no failure, the next one is a new one. */
const staleConnection = Symbol('stale connection')

function exchange(
  method: string,
  url: URL,
  body: string,
  agent: Agent,
  timeoutMs: number,
): Promise<string | typeof staleConnection> {
  return new Promise((resolve, reject) => {
    const headers = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) }
    const outgoing = request(url, { method, agent, headers })
    const fail = (message: string) => {
      reject(new Error(message))
      outgoing.destroy()
    }
    const cancelTimeout = after(timeoutMs, () => {
      // Timers come before sockets: after the game blocked its process for long, the answer may wait to be read.
      setImmediate(() => fail(`no answer within ${timeoutMs} ms`))
    })
    let responded = false
    outgoing.on('socket', (socket) => socket.unref())
    outgoing.on('close', cancelTimeout)
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
        if (text.length > maxAnswerLength) fail(`an answer of more than ${maxAnswerLength} characters`)
      })
      incoming.on('error', reject)
      incoming.on('end', () => {
        if (incoming.statusCode === 200) resolve(text)
        else reject(new Error(`answered with status ${incoming.statusCode}`))
      })
    })
    outgoing.end(body)
  })
}

function isReset(error: Error): boolean {
  return 'code' in error && (error.code === 'ECONNRESET' || error.code === 'EPIPE')
}
