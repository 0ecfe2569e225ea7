/**
 * The baselines for the HTTP rows: `node:http` routes as a user would write them by hand. Each parses the body and returns what the
 * fleet returns.
 */
import { once } from 'node:events'
import { createServer } from 'node:http'
import { collectYoungGarbage } from './cost.js'
import { buildID } from './fleet.js'
import { mainThreadCpuUs, type Target } from './load.js'

/** Returns undefined for a request that is invalid. */
type Answer = (body: unknown) => unknown

interface BareServer {
  readonly server: { readonly namespace: string; readonly name: string }
  readonly address: string
  readonly ports: readonly {
    readonly name: string
    readonly container: number
    readonly public: number
    readonly protocol: string
  }[]
}

/** Servers that are never started: one array of ready servers per build, and the server of each session. */
class BareAllocator {
  readonly #ready = new Map<string, BareServer[]>()
  readonly #bySession = new Map<string, BareServer>()

  constructor(servers: number) {
    this.#ready.set(
      buildID,
      Array.from({ length: servers }, (_, n) => ({
        // As long as the name of a server of the fleet.
        server: { namespace: 'default', name: `arena-${String(n).padStart(5, '0')}` },
        address: '127.0.0.1',
        ports: [{ name: 'port_7777', container: 7_777, public: 10_000 + n, protocol: 'TCP' }],
      })),
    )
  }

  readonly answer: Answer = (body) => {
    if (typeof body !== 'object' || body === null || !('buildID' in body && 'sessionID' in body)) return undefined
    const { buildID, sessionID } = body
    if (typeof buildID !== 'string' || typeof sessionID !== 'string') return undefined
    const allocated = this.#bySession.get(sessionID) ?? this.#ready.get(buildID)?.pop()
    if (allocated === undefined) return undefined
    this.#bySession.set(sessionID, allocated)
    const { server, address, ports } = allocated
    return {
      IPV4Address: address,
      Ports: ports.map((port) => `${port.container}:${port.public}`).join(','),
      SessionID: sessionID,
      details: { server, address, ports },
    }
  }

  endSessions(): void {
    this.#ready.get(buildID)?.push(...this.#bySession.values())
    this.#bySession.clear()
  }
}

const heartbeat: Answer = () => ({ operation: 'Continue', nextHeartbeatIntervalMs: 1_000 })

export interface BareOptions {
  readonly kind: 'allocation' | 'heartbeat'
  /** Number of servers that can be allocated. */
  readonly servers: number
}

export async function open({ kind, servers }: BareOptions) {
  const allocator = new BareAllocator(servers)
  const answer = kind === 'allocation' ? allocator.answer : heartbeat
  // The same timeout as in `serve`. Node's default would close idle connections between two rounds.
  const server = createServer({ keepAliveTimeout: 75_000 }, (request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      const answered = answer(parsed(Buffer.concat(chunks).toString()))
      const body = JSON.stringify(answered ?? { error: 'invalid request, or no server is ready' })
      const headers = { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(body) }
      response.writeHead(answered === undefined ? 400 : 200, headers)
      response.end(body)
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  const port = typeof address === 'object' && address ? address.port : 0
  return {
    target: (): Target => ({ host: '127.0.0.1', port }),
    cpuUs: mainThreadCpuUs,
    collectYoungGarbage,
    endSessions: () => allocator.endSessions(),
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

export const bareServerFile = import.meta.url
