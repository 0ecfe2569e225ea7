/** The connections to a host that leads, which stay open between requests. */
import type { ClientRequest, IncomingMessage } from 'node:http'
import { Agent, request as httpsRequest } from 'node:https'
import { systemClock } from '../../contracts/clock.js'
import type { ForwardedRequest, Sent } from '../../contracts/elector.js'
import { sharedKeyClient } from '../../platform/shared-key.js'

/** A host of the same cluster that does not answer a connection for this long is not there. */
const connectTimeoutMs = 2_000
/** Shorter than the other side's, so that no request is sent on a connection that is being closed. */
const idleMs = 30_000

export class Connections {
  readonly #key: () => Uint8Array | undefined
  /** By `host:port`. There is one leader, so that those of an earlier one close once they are idle. */
  readonly #agents = new Map<string, Agent>()
  readonly #inFlight = new Set<ClientRequest>()
  #isClosed = false

  constructor(key: () => Uint8Array | undefined) {
    this.#key = key
  }

  send(address: string, { method, path, headers, body }: ForwardedRequest, signal: AbortSignal): Promise<Sent> {
    if (this.#isClosed) return Promise.resolve({ failure: 'unsent', error: new Error('this host is closing') })
    const { host, port } = partsOf(address)
    const length = body && { 'Content-Length': String(body.byteLength) }
    const all = { ...headers, ...length, Host: 'gamekeeper' }
    const options = { agent: this.#agentOf(address), host, port, method, path, headers: all, signal }
    return new Promise((resolve) => {
      const request = httpsRequest(options)
      this.#inFlight.add(request)
      const isSent = followConnection(request)
      request.on('response', (incoming) => resolve({ response: responseOf(incoming) }))
      request.on('error', (error) => resolve({ failure: isSent() ? 'unknown' : 'unsent', error }))
      request.on('close', () => this.#inFlight.delete(request))
      request.end(body)
    })
  }

  /**
   * Closes idle connections to all hosts but this one. Those in use stay until their requests end: a host that has stopped to lead still
   * answers what it has begun.
   */
  keepOnly(address: string | undefined): void {
    for (const [each, agent] of this.#agents) {
      if (each === address) continue
      this.#agents.delete(each)
      // From now on it keeps no connection that becomes idle.
      agent.maxFreeSockets = 0
      for (const socket of Object.values(agent.freeSockets).flat()) socket?.destroy()
    }
  }

  /** Ends requests in flight, too. Nothing is sent any more. */
  close(): void {
    this.#isClosed = true
    this.keepOnly(undefined)
    for (const request of this.#inFlight) request.destroy(new Error('this host is closing'))
  }

  #agentOf(address: string): Agent {
    const known = this.#agents.get(address)
    if (known) return known
    const agent = new Agent({ keepAlive: true, timeout: idleMs, maxFreeSockets: 256, ...sharedKeyClient(this.#key) })
    this.#agents.set(address, agent)
    return agent
  }
}

/** Gives up a connection that is not established in time. Returns whether the request may have been sent. */
function followConnection(request: ClientRequest): () => boolean {
  let isSent = false
  request.on('socket', (socket) => {
    if (request.reusedSocket) {
      isSent = true
      return
    }
    const giveUp = () => request.destroy(new Error(`no connection within ${connectTimeoutMs / 1_000} s`))
    const cancel = systemClock.after(connectTimeoutMs, giveUp)
    socket.once('secureConnect', () => {
      isSent = true
      cancel()
    })
    socket.once('close', cancel)
  })
  return () => isSent
}

function responseOf(incoming: IncomingMessage) {
  const headers: Record<string, string> = {}
  const { rawHeaders } = incoming
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    const name = rawHeaders[at] ?? ''
    if (!ofConnection.has(name.toLowerCase())) headers[name] = rawHeaders[at + 1] ?? ''
  }
  const isWhole = incoming.headers['content-length'] !== undefined || incoming.statusCode === 204
  return { status: incoming.statusCode ?? 502, headers, text: incoming.setEncoding('utf8'), isWhole }
}

/** This host sets its own. */
const ofConnection: ReadonlySet<string> = new Set([
  'connection',
  'content-length',
  'date',
  'keep-alive',
  'transfer-encoding',
])

function partsOf(address: string): { readonly host: string; readonly port: number } {
  const colon = address.lastIndexOf(':')
  return { host: address.slice(0, colon).replace(/^\[|\]$/g, ''), port: Number(address.slice(colon + 1)) }
}
