/**
 * Stands in for an API server with more servers than the nodes of a test cluster carry: objects that a real one (1.20) has answered, as
 * often as wanted, each with its own names, ports and token. Answers what a host asks, and reports changes to its watches.
 */
import { readFileSync } from 'node:fs'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { json } from 'node:stream/consumers'
import { setTimeout as pause } from 'node:timers/promises'
import { seal } from '../../adapters/kubernetes/store/fleet-key.js'

interface Recorded {
  readonly metadata: { readonly name: string; readonly namespace?: string; readonly [field: string]: unknown }
  readonly [field: string]: unknown
}

const recorded: Readonly<Record<'build' | 'server' | 'pod' | 'node', Recorded>> = JSON.parse(
  readFileSync(new URL('recorded-objects.json', import.meta.url), 'utf8'),
)
export const namespace = String(recorded.build.metadata.namespace)
export const buildID = String(Object(recorded.build['spec'])['buildID'])
const key = Buffer.alloc(32, 7)
const podsPerNode = 100
const firstPort = 20_000
const base = `/apis/mps.gamekeeper.com/v1alpha1/namespaces/${namespace}`
const collections = [
  `${base}/gameserverbuilds`,
  `${base}/gameservers`,
  `${base}/gameserverdetails`,
  `${base}/gameserverallocations`,
  `/api/v1/namespaces/${namespace}/pods`,
  `/api/v1/namespaces/${namespace}/secrets`,
  `/api/v1/namespaces/${namespace}/events`,
  `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases`,
  '/api/v1/nodes',
  `${base}/gameserverjournals`,
] as const
type Collection = (typeof collections)[number]

export class RecordedCluster {
  /** `GET /path` of each request but watches. */
  readonly requests: string[] = []
  /** Bytes that watches have sent. */
  watchedBytes = 0
  readonly #server = createServer((request, response) => void this.#answer(request, response))
  /** Each object as JSON, by its name. */
  readonly #objects = new Map<Collection, Map<string, string>>(collections.map((path) => [path, new Map()]))
  readonly #watches = new Map<ServerResponse, Collection>()
  #revision = 1_000

  constructor(servers: number) {
    const { spec } = recorded.build
    this.#put(collections[0], { ...recorded.build, spec: { ...Object(spec), standingBy: servers, max: servers } })
    this.#put(collections[5], { metadata: { name: 'gamekeeper-key' }, data: { key: key.toString('base64') } })
    const [, port] = String(Object(recorded.server['status'])['ports']).split(':')
    for (let index = 0; index < servers; index++) {
      const named = (object: Recorded) => {
        const text = JSON.stringify(object)
          .replaceAll(recorded.server.metadata.name, `arena-${index}`)
          .replaceAll(String(Object(recorded.server['spec'])['uid']), `uid-${index}`)
          .replaceAll(String(recorded.server.metadata['uid']), `object-${index}`)
          .replaceAll(String(recorded.pod.metadata['uid']), `pod-${index}`)
          .replaceAll(/"hollow-\d"/g, `"node-${index % Math.ceil(servers / podsPerNode)}"`)
          .replaceAll(`:${port}`, `:${firstPort + index}`)
        return JSON.parse(text) as Recorded
      }
      const server = named(recorded.server)
      const token = seal(key, `token-${index}`, `uid-${index}`, Buffer.alloc(12, index % 256))
      this.#put(collections[1], { ...server, spec: { ...Object(server['spec']), token } })
      this.#put(collections[4], named(recorded.pod))
    }
    for (let index = 0; index < servers / podsPerNode; index++) {
      this.#put('/api/v1/nodes', { ...recorded.node, metadata: { ...recorded.node.metadata, name: `node-${index}` } })
    }
  }

  async listen(): Promise<string> {
    await new Promise<void>((resolve) => this.#server.listen(0, '127.0.0.1', resolve))
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  /** Resolves once hosts have asked for nothing but the Lease for a second. */
  async quiet(): Promise<void> {
    let count = -1
    for (;;) {
      const others = this.requests.filter((request) => !request.includes('/leases')).length
      if (others === count) return
      count = others
      await pause(1_000)
    }
  }

  close(): void {
    this.#server.closeAllConnections()
    this.#server.close()
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method = '', url = '/' } = request
    const { pathname, searchParams } = new URL(url, 'http://recorded')
    const collection = collections.find((path) => pathname === path || pathname.startsWith(`${path}/`))
    const [name] = pathname.slice((collection?.length ?? 0) + 1).split('/')
    const objects = collection && this.#objects.get(collection)
    const send = (status: number, body: string) => response.writeHead(status).end(body)
    if (searchParams.has('watch') && collection) {
      response.writeHead(200).flushHeaders()
      this.#watches.set(response, collection)
      return void response.on('close', () => this.#watches.delete(response))
    }
    this.requests.push(`${method} ${pathname}`)
    const body: unknown = method === 'GET' || method === 'DELETE' ? undefined : await json(request)
    if (!objects || !collection) return void send(403, failure(403, 'Forbidden'))
    if (method === 'GET' && !name) {
      const only = searchParams.get('fieldSelector')?.replace('metadata.name=', '')
      const items = only === undefined ? [...objects.values()] : [objects.get(only)].filter((one) => one !== undefined)
      const begin = Number(searchParams.get('continue') ?? 0)
      const end = begin + Number(searchParams.get('limit') ?? Infinity)
      const next = end < items.length ? `,"continue":"${end}"` : ''
      const metadata = `{"resourceVersion":"${this.#revision}"${next}}`
      return void send(200, `{"metadata":${metadata},"items":[${items.slice(begin, end).join()}]}`)
    }
    const object = name === undefined ? undefined : objects.get(name)
    if (name && object === undefined) return void send(404, failure(404, 'NotFound', name))
    if (method === 'GET' && object !== undefined) return void send(200, object)
    const before: Recorded | undefined = object === undefined ? undefined : JSON.parse(object)
    send(200, this.#put(collection, merged(before, body as Recorded)))
  }

  /** Returns the object with its new revision, which its watches learn. */
  #put(collection: Collection, object: Recorded): string {
    const metadata = { ...object.metadata, resourceVersion: String(++this.#revision) }
    const text = JSON.stringify({ ...object, metadata })
    this.#objects.get(collection)?.set(object.metadata.name, text)
    const event = `{"type":"MODIFIED","object":${text}}\n`
    for (const [response, path] of this.#watches) {
      if (path !== collection) continue
      response.write(event)
      this.watchedBytes += event.length
    }
    return text
  }
}

/** What a patch or an update leaves out stays, as far as hosts depend on it. */
function merged(before: Recorded | undefined, body: Recorded): Recorded {
  const metadata: Recorded['metadata'] = { ...before?.metadata, ...body.metadata }
  for (const field of ['labels', 'annotations']) {
    const all = { ...Object(before?.metadata[field]), ...Object(body.metadata[field]) }
    Object.assign(metadata, { [field]: Object.fromEntries(Object.entries(all).filter(([, value]) => value !== null)) })
  }
  return { ...before, ...body, metadata }
}

function failure(code: number, reason: string, name?: string): string {
  return JSON.stringify({ kind: 'Status', code, reason, message: reason, details: { name } })
}
