/** A fleet's link to the host that leads: who that is, and the connections to it. */
import type { ClientRequest, IncomingMessage } from 'node:http'
import { Agent, request as httpsRequest } from 'node:https'
import { systemClock } from '../contracts/clock.js'
import {
  type Elector,
  type ForwardedRequest,
  type ForwardingOptions,
  type LeaderLink,
  leadsPath,
  type Sent,
} from '../contracts/elector.js'
import { FleetError } from '../contracts/errors.js'
import type { ForwardedKind, ForwardedOutcome } from '../contracts/observer.js'
import type { Store } from '../contracts/store.js'
import { deriveKey, sharedKeyClient } from '../platform/tls.js'
import { type Limiter, limiter } from '../util/limiter.js'
import type { Observers } from '../util/observers.js'

const purpose = 'forwarding'
/** Every host that is asked whether it is ready asks the leader, as probes do every few seconds. */
const peerMs = 10_000

export interface OpenLink extends LeaderLink {
  /** Call when this host begins or stops to lead. */
  changed(): void
  /** Whether another host has lately sent a request, and so is there to take over. */
  hasPeer(): boolean
  close(): void
}

interface LinkDependencies {
  readonly forwarding: ForwardingOptions
  readonly elector: Elector
  readonly store: Store
  readonly leads: () => boolean
  readonly observers: Pick<Observers, 'isEmpty' | 'timedCall'>
}

/** Throws `invalid` if the elector does not know the leader's address, or if the hosts share no secret. */
export function openLink({ forwarding, elector, store, leads, observers }: LinkDependencies): OpenLink {
  if (!elector.follow) {
    const problem = 'createFleet: forwarding needs an elector that knows the address of the leader (follow)'
    throw new FleetError('invalid', `${problem}, as that of kubernetesBackend does`)
  }
  const { address: own, secret } = forwarding
  const given = secret === undefined ? undefined : deriveKey(secret, purpose)
  if (given === undefined && !store.deriveKey) {
    throw new FleetError(
      'invalid',
      'createFleet: forwarding.secret is missing, and the store keeps no secret of its own',
    )
  }
  const key = () => given ?? store.deriveKey?.(purpose)
  const connections = new Connections(key)
  const followers = new Set<() => void>()
  let leader: string | undefined
  let isClosed = false
  let heardAt = -Infinity
  const changed = () => {
    for (const follower of [...followers]) follower()
  }
  const unfollow = elector.follow((address) => {
    const next = address === own ? undefined : address
    if (next === leader || isClosed) return
    leader = next
    connections.keepOnly(leader)
    changed()
  })
  return Object.freeze<OpenLink>({
    key,
    changed,
    leads,
    heard: () => void (heardAt = systemClock.elapsed()),
    hasPeer: () => systemClock.elapsed() - heardAt < peerMs,
    leader: () => leader,
    follow(follower: () => void) {
      followers.add(follower)
      return () => void followers.delete(follower)
    },
    async send(address: string, request: ForwardedRequest, signal: AbortSignal): Promise<Sent> {
      if (observers.isEmpty || request.path === leadsPath) return connections.send(address, request, signal)
      let outcome: ForwardedOutcome = 'unknown'
      const send = async () => {
        const sent = await connections.send(address, request, signal)
        outcome = 'failure' in sent ? sent.failure : 'ok'
        return sent
      }
      return observers.timedCall(send, (observer, _, ms) => observer.forwarded?.(kindOf(request), outcome, ms))
    },
    close() {
      if (isClosed) return
      isClosed = true
      unfollow()
      connections.close()
      // What waits for a leader learns that this host has none any more.
      leader = undefined
      changed()
    },
  })
}

/** The path of a heartbeat begins with the version of its protocol. */
function kindOf({ path }: ForwardedRequest): ForwardedKind {
  return path.startsWith('/v1/sessionHosts/') ? 'heartbeat' : 'call'
}

// The connections to a host that leads, which stay open between requests.

/**
 * A host of the same cluster that does not answer a connection for this long is not there. One that has not answered requests for this long is
 * asked whether it still leads, and is not there if it does not answer that for as long again.
 */
const defaultConnectMs = 1_500
/** When a leader appears, all calls that are held need a connection at once. More handshakes than this would only slow each other down. */
const maxHandshakes = 64
/** How long a call may wait until it is its turn to connect, as a multiple of the above. */
const turns = 2
/** Shorter than the other side's, so that no request is sent on a connection that is being closed. */
const idleMs = 30_000

interface Peer {
  readonly address: string
  readonly agent: Agent
  readonly handshake: Limiter
  /** Sent, and not answered yet. */
  readonly unanswered: Set<ClientRequest>
  /** Elapsed ms at which it last began to answer. */
  answeredAt: number
  isChecking: boolean
}

export class Connections {
  readonly #key: () => Uint8Array | undefined
  readonly #connectMs: number
  /** By `host:port`. There is one leader, so that those of an earlier one close once they are idle. */
  readonly #peers = new Map<string, Peer>()
  readonly #inFlight = new Set<ClientRequest>()
  #isClosed = false

  constructor(key: () => Uint8Array | undefined, connectMs = defaultConnectMs) {
    this.#key = key
    this.#connectMs = connectMs
  }

  send(address: string, request: ForwardedRequest, signal: AbortSignal): Promise<Sent> {
    if (this.#isClosed) return Promise.resolve(unsent(new Error('this host is closing')))
    const peer = this.#peerOf(address)
    if (hasIdle(peer.agent)) return this.#request(peer, request, signal).sent
    return new Promise((resolve) => {
      let isOver = false
      const giveUp = (error: unknown) => {
        isOver = true
        resolve(unsent(error))
      }
      const onAbort = () => giveUp(signal.reason)
      const turnMs = turns * this.#connectMs
      const cancel = systemClock.after(turnMs, () => giveUp(new Error(`no connection within ${turnMs / 1_000} s`)))
      if (signal.aborted) onAbort()
      signal.addEventListener('abort', onAbort)
      void peer.handshake(async () => {
        cancel()
        signal.removeEventListener('abort', onAbort)
        if (isOver) return
        if (this.#peers.get(address) !== peer) return giveUp(new Error('this host does not lead any more'))
        const { sent, connected } = this.#request(peer, request, signal)
        resolve(sent)
        await connected
      })
    })
  }

  /** `connected` resolves once the request has a connection, or has failed. */
  #request(peer: Peer, { method, path, headers, body }: ForwardedRequest, signal: AbortSignal) {
    const { address, agent } = peer
    const { host, port } = partsOf(address)
    const length = body && { 'Content-Length': String(body.byteLength) }
    const all = { ...headers, ...length, Host: 'gamekeeper' }
    let request: ClientRequest
    try {
      request = httpsRequest({ agent, host, port, method, path, headers: all, signal })
    } catch (error) {
      // The leader's address is no address.
      return { sent: Promise.resolve(unsent(error)), connected: Promise.resolve() }
    }
    this.#inFlight.add(request)
    if (path !== leadsPath) this.#expectAnswer(peer, request)
    let isConnected = () => {}
    const connected = new Promise<void>((resolve) => (isConnected = resolve))
    const isSent = followConnection(request, this.#connectMs, isConnected)
    const sent = new Promise<Sent>((resolve) => {
      request.on('response', (incoming) => {
        peer.answeredAt = systemClock.elapsed()
        peer.unanswered.delete(request)
        resolve({ response: responseOf(incoming) })
      })
      request.on('error', (error) => resolve({ failure: isSent() ? 'unknown' : 'unsent', error }))
    })
    request.on('close', () => {
      isConnected()
      this.#inFlight.delete(request)
      peer.unanswered.delete(request)
    })
    request.end(body)
    return { sent, connected }
  }

  #expectAnswer(peer: Peer, request: ClientRequest): void {
    peer.unanswered.add(request)
    if (peer.isChecking) return
    peer.isChecking = true
    systemClock.after(this.#connectMs, () => void this.#check(peer))
  }

  /**
   * The leader may take long to answer, for example because a caller waits for a server. Whether it is still there is asked separately, so that
   * no caller waits for a host that is frozen or cut off.
   */
  async #check(peer: Peer): Promise<void> {
    const asked = [...peer.unanswered]
    const isQuiet = systemClock.elapsed() - peer.answeredAt >= this.#connectMs
    if (asked.length > 0 && isQuiet && !this.#isClosed && !(await this.#isThere(peer))) {
      const seconds = (2 * this.#connectMs) / 1_000
      for (const request of asked) {
        if (peer.unanswered.has(request)) request.destroy(new Error(`it has not answered anything for ${seconds} s`))
      }
    }
    peer.isChecking = peer.unanswered.size > 0 && !this.#isClosed
    if (peer.isChecking) systemClock.after(this.#connectMs, () => void this.#check(peer))
  }

  async #isThere(peer: Peer): Promise<boolean> {
    const limit = new AbortController()
    const cancel = systemClock.after(this.#connectMs, () => limit.abort())
    try {
      const question = { method: 'GET', path: leadsPath, headers: {}, body: undefined }
      const sent = await this.#request(peer, question, limit.signal).sent
      if ('failure' in sent) return false
      for await (const _ of sent.response.text);
      return true
    } catch {
      return false
    } finally {
      cancel()
    }
  }

  /**
   * Closes idle connections to all hosts but this one. Those in use stay until their requests end: a host that has stopped to lead still
   * answers what it has begun.
   */
  keepOnly(address: string | undefined): void {
    for (const [each, { agent }] of this.#peers) {
      if (each === address) continue
      this.#peers.delete(each)
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

  #peerOf(address: string): Peer {
    const known = this.#peers.get(address)
    if (known) return known
    const agent = new Agent({ keepAlive: true, timeout: idleMs, maxFreeSockets: 256, ...sharedKeyClient(this.#key) })
    const unanswered = new Set<ClientRequest>()
    const handshake = limiter(maxHandshakes)
    const peer: Peer = { address, agent, handshake, unanswered, answeredAt: -Infinity, isChecking: false }
    this.#peers.set(address, peer)
    return peer
  }
}

function unsent(error: unknown): Sent {
  return { failure: 'unsent', error }
}

function hasIdle({ freeSockets }: Agent): boolean {
  return Object.values(freeSockets).some((sockets) => sockets !== undefined && sockets.length > 0)
}

/** Gives up a connection that is not established in time. Returns whether the request may have been sent. */
function followConnection(request: ClientRequest, connectMs: number, isConnected: () => void): () => boolean {
  let isSent = false
  request.on('socket', (socket) => {
    if (request.reusedSocket) {
      isSent = true
      return isConnected()
    }
    const giveUp = () => request.destroy(new Error(`no connection within ${connectMs / 1_000} s`))
    const cancel = systemClock.after(connectMs, giveUp)
    socket.once('secureConnect', () => {
      isSent = true
      cancel()
      isConnected()
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
