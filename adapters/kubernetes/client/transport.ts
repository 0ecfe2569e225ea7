/**
 * Connections to the API server and the credentials on them. Credentials are asked for again now and then, since tokens
 * expire and are rotated; connections are kept until their certificates change.
 */
import http from 'node:http'
import https from 'node:https'
import { connect } from 'node:net'
import type { Clock } from '../../../src/contracts/clock.js'
import { FleetError, messageOf } from '../../../src/contracts/errors.js'
import type { KubeConfigLike } from './kube-config.js'

/** How to send one call now. */
export interface Way {
  readonly headers: Readonly<Record<string, string>>
  readonly request: typeof https.request
  readonly protocol: string
  readonly hostname: string
  readonly port: string
  /** What the server's paths begin with; mostly nothing. */
  readonly prefix: string
  /** For calls that end soon. */
  readonly agent: http.Agent
  /** For streams, and for what must not wait behind other calls. */
  readonly apart: http.Agent
}

/** Tokens of service accounts are rotated about hourly, and the old one holds on for a while. */
const credentialsMs = 60_000
/** Longest wait for them. */
const renewalMs = 20_000
/** Shorter than what servers and the boxes before them grant an idle connection. */
const idleMs = 30_000

type Material = Pick<https.AgentOptions, (typeof materialFields)[number]>
const materialFields = ['ca', 'cert', 'key', 'pfx', 'passphrase', 'servername', 'rejectUnauthorized'] as const

export class Transport {
  readonly #config: KubeConfigLike
  readonly #clock: Clock
  readonly #connections: number
  readonly #server: URL
  #way: Way | undefined
  #material = ''
  #freshUntil = 0
  #renewing: Promise<Way> | undefined

  constructor(config: KubeConfigLike, clock: Clock, connections: number) {
    this.#config = config
    this.#clock = clock
    this.#connections = connections
    this.#server = serverOf(config)
  }

  /** For messages. */
  get place(): string {
    return this.#server.origin
  }

  /** Those of before serve while others are asked for. Rejects with `unavailable` when there are none, and none can be had. */
  now(): Way | Promise<Way> {
    if (!this.#way) return this.renew()
    // One that fails is told by the call whose credentials are not taken any more.
    if (this.#clock.elapsed() >= this.#freshUntil) this.renew().catch(() => {})
    return this.#way
  }

  /** The server does not take these credentials any more. */
  renew(): Promise<Way> {
    this.#renewing ??= this.#renew().finally(() => {
      this.#renewing = undefined
    })
    return this.#renewing
  }

  close(): void {
    this.#way?.agent.destroy()
    this.#way?.apart.destroy()
  }

  async #renew(): Promise<Way> {
    const options: https.RequestOptions = { headers: {} }
    try {
      await this.#within(this.#config.applyToHTTPSOptions(options))
    } catch (error) {
      throw new FleetError('unavailable', `no credentials for the cluster at ${this.place}: ${messageOf(error)}`, {
        cause: error,
      })
    }
    const material: Material = Object.fromEntries(
      materialFields.flatMap((name) => (options[name] === undefined ? [] : [[name, options[name]]])),
    )
    const text = JSON.stringify(material)
    const agents = this.#way && text === this.#material ? this.#way : this.#agents(options, material)
    const isPlain = this.#server.protocol === 'http:'
    const way: Way = {
      headers: headersOf(options),
      request: isPlain ? http.request : https.request,
      protocol: this.#server.protocol,
      hostname: this.#server.hostname.replace(/^\[|\]$/g, ''),
      port: this.#server.port || (isPlain ? '80' : '443'),
      prefix: this.#server.pathname.replace(/\/$/, ''),
      agent: agents.agent,
      apart: agents.apart,
    }
    this.#way = way
    this.#material = text
    this.#freshUntil = this.#clock.elapsed() + credentialsMs
    return way
  }

  /** A program that makes credentials may hang, or wait for somebody to type. */
  async #within(work: Promise<void>): Promise<void> {
    let cancel = () => {}
    const late = new Promise<never>((_, reject) => {
      cancel = this.#clock.after(renewalMs, () => reject(new Error(`none within ${renewalMs / 1_000} s`)))
    })
    try {
      await Promise.race([work, late])
    } finally {
      cancel()
    }
  }

  #agents(options: https.RequestOptions, material: Material): Pick<Way, 'agent' | 'apart'> {
    // Only the package knows how to go through a proxy.
    const { agent: given } = options
    if (this.#config.getCurrentCluster()?.proxyUrl && given instanceof http.Agent) return { agent: given, apart: given }
    const kept = { keepAlive: true, timeout: idleMs, ...material } satisfies https.AgentOptions
    const make = (maxSockets: number) =>
      this.#server.protocol === 'http:'
        ? new http.Agent({ keepAlive: true, timeout: idleMs, maxSockets })
        : new https.Agent({ ...kept, maxSockets })
    return { agent: make(this.#connections), apart: make(Infinity) }
  }
}

/** The address of this machine from which it reaches the API server: the one under which pods may find this host. */
export async function ownAddressTowards(place: string, limitMs: number): Promise<string | undefined> {
  const { hostname, port, protocol } = new URL(place)
  const socket = connect({
    host: hostname.replace(/^\[|\]$/g, ''),
    port: Number(port || (protocol === 'http:' ? 80 : 443)),
    timeout: limitMs,
  })
  try {
    return await new Promise<string | undefined>((resolve) => {
      socket.once('connect', () => resolve(socket.localAddress))
      socket.once('timeout', () => resolve(undefined))
      // It is a guess that fails: whoever asks goes on without.
      socket.once('error', () => resolve(undefined))
    })
  } finally {
    socket.destroy()
  }
}

function serverOf(config: KubeConfigLike): URL {
  const server = config.getCurrentCluster()?.server
  if (server === undefined) {
    throw new FleetError('invalid', `kubernetesBackend: context ${config.getCurrentContext()} names no cluster`)
  }
  try {
    return new URL(server)
  } catch (error) {
    throw new FleetError('invalid', `kubernetesBackend: the cluster's server ${server} is no URL`, { cause: error })
  }
}

function headersOf({ headers = {}, auth }: https.RequestOptions): Readonly<Record<string, string>> {
  const all: Record<string, string> = {}
  for (const [name, value] of Object.entries(headers)) if (value !== undefined) all[name] = String(value)
  if (auth) all['Authorization'] = `Basic ${Buffer.from(auth).toString('base64')}`
  return all
}
