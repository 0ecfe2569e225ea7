/** An API server that keeps only the Secret with the fleet's key, and lists the servers and builds that a test gives it. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { json } from 'node:stream/consumers'
import { onTestFinished } from 'vitest'
import { seal } from '../../../../adapters/kubernetes/store/fleet-key.js'
import { type KubernetesStore, openKubernetesStore } from '../../../../adapters/kubernetes/store/store.js'
import { type Clock, systemClock } from '../../../../src/contracts/clock.js'
import { defaultApiGroup } from '../../../../src/rules/model/wire.js'
import { apiOf, configFor, fakeApiServer, respond, statusOf } from './fake-api-server.js'

const name = 'gamekeeper-key'
const namespace = 'games'

interface Content {
  readonly data?: Readonly<Record<string, string>>
  readonly annotations?: Readonly<Record<string, string>>
}

export const keyOf = (fill: number) => Buffer.alloc(32, fill)
export const withKey = (fill: number): Content => ({ data: { key: keyOf(fill).toString('base64') } })

/** A GameServer whose token was sealed with the key. */
export function serverSealedWith(fill: number, serverName = 'arena-1') {
  const token = seal(keyOf(fill), 'a token', `uid-of-${serverName}`, Buffer.alloc(12, 1))
  return serverWith(token, serverName)
}

export function serverWith(token: string, serverName: string) {
  const metadata = { namespace, name: serverName, uid: `object-${serverName}`, resourceVersion: '9' }
  return { metadata, spec: { uid: `uid-of-${serverName}`, token, build: 'arena', buildUid: 'b' } }
}

/** A host that checks again after ten seconds does so at once. */
export const hastyClock: Clock = {
  ...systemClock,
  after: (ms, fn) => systemClock.after(ms === 10_000 ? 20 : ms, fn),
}

type Kind = 'secret' | 'secrets' | 'watch' | 'gameservers' | 'gameserverbuilds' | 'other'

export async function fakeKeyServer(first?: Content) {
  let version = 10
  let secret: (Content & { readonly version: number }) | undefined
  const watches = new Set<ServerResponse>()
  const state = {
    servers: [] as readonly object[],
    builds: [] as readonly object[],
    /** What hosts have written to the Secret. */
    writes: [] as Content[],
    /** Kinds of requests that came, with the hosts' credentials. */
    seen: [] as string[],
    /** Takes a request before the server does: true if it has. */
    intercept: (_kind: Kind, _host: string, _response: ServerResponse): boolean => false,
    /** Called after a host has written. */
    written: () => {},
  }
  const objectNow = () =>
    secret && {
      ...{ apiVersion: 'v1', kind: 'Secret', data: secret.data ?? {} },
      metadata: { name, namespace, resourceVersion: String(secret.version), annotations: secret.annotations ?? {} },
    }
  const sendTo = (watch: ServerResponse) => {
    const object = objectNow() ?? { kind: 'Secret', metadata: { name, namespace, resourceVersion: String(version) } }
    watch.write(`${JSON.stringify({ type: secret ? 'MODIFIED' : 'DELETED', object })}\n`)
  }
  const set = (content: Content | undefined) => {
    version++
    secret = content && { ...content, version }
    for (const watch of watches) sendTo(watch)
  }
  if (first) set(first)

  async function write(request: IncomingMessage, response: ServerResponse) {
    const body = (await json(request)) as {
      readonly metadata: { readonly resourceVersion?: string } & Content
    } & Content
    const isCreation = request.method === 'POST'
    if (isCreation === Boolean(secret)) return respond(response, 409, statusOf(409, 'AlreadyExists', name))
    const { resourceVersion, annotations } = body.metadata
    if (!isCreation && resourceVersion !== String(secret?.version))
      return respond(response, 409, statusOf(409, 'Conflict', name))
    const content = { data: { ...body.data }, annotations: { ...secret?.annotations, ...annotations } }
    set(content)
    state.writes.push(content)
    respond(response, 200, objectNow())
    state.written()
  }

  const fake = await fakeApiServer((request, response, { pathname, searchParams }) => {
    const host = (request.headers.authorization ?? '').replace('Bearer ', '')
    const kind = kindOf(pathname, searchParams.has('watch'))
    state.seen.push(`${host} ${kind}`)
    if (state.intercept(kind, host, response)) return
    const list = (items: readonly object[]) =>
      respond(response, 200, { metadata: { resourceVersion: String(version) }, items })
    if (kind === 'watch') {
      response.writeHead(200, { 'content-type': 'application/json' }).flushHeaders()
      watches.add(response)
      response.on('close', () => watches.delete(response))
      if (Number(searchParams.get('resourceVersion')) < version) sendTo(response)
    } else if (kind.startsWith('secret') && request.method !== 'GET') void write(request, response)
    else if (kind === 'secret') respond(response, secret ? 200 : 404, objectNow() ?? statusOf(404, 'NotFound', name))
    else if (kind === 'secrets') list(secret ? [objectNow() ?? {}] : [])
    else if (kind === 'gameservers') list(state.servers)
    else if (kind === 'gameserverbuilds') list(state.builds)
    else respond(response, 201, { metadata: { name: 'x', namespace, resourceVersion: '1' } })
  })

  const open = async (
    host: string,
    { clock = systemClock, isLeading = false, lines = [] as string[] }: HostOptions = {},
  ): Promise<KubernetesStore> => {
    const log = (_: object, message: string) => void lines.push(message)
    const store = await openKubernetesStore({
      ...{
        api: apiOf(configFor(fake.url, [host]), { clock }),
        clock,
        group: defaultApiGroup,
        isLeading: () => isLeading,
      },
      ...{
        systemNamespace: namespace,
        namespaces: [namespace],
        logger: { debug() {}, info: log, warn: log, error: log },
      },
    })
    onTestFinished(() => store.close())
    return store
  }
  return Object.assign(state, {
    set,
    open,
    now: () => secret,
    watchers: () => watches.size,
    /** Breaks all connections. */
    cutAll: () => fake.cutAll(),
  })
}

interface HostOptions {
  readonly clock?: Clock
  readonly isLeading?: boolean
  readonly lines?: string[]
}

function kindOf(path: string, isWatch: boolean): Kind {
  if (isWatch) return path.endsWith('/secrets') ? 'watch' : 'other'
  const last = path.split('/').at(-1)
  if (last === name) return 'secret'
  return last === 'secrets' || last === 'gameservers' || last === 'gameserverbuilds' ? last : 'other'
}
