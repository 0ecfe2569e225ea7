/** Which pods pull images to which nodes, and when, against an API server that stands in for the cluster. */
import type { ServerResponse } from 'node:http'
import { text } from 'node:stream/consumers'
import { virtualClock } from 'gamekeeper/testing'
import { describe, expect, it, onTestFinished } from 'vitest'
import { NodeCache } from '../../../../adapters/kubernetes/nodes/node-cache.js'
import { namesOf } from '../../../../adapters/kubernetes/pods/pod-objects.js'
import { ImagePulls } from '../../../../adapters/kubernetes/provisioning/image-pulls.js'
import { silentLogger } from '../../../../src/contracts/logger.js'
import { apiOf, configFor, fakeApiServer, respond, statusOf } from '../support/fake-api-server.js'

interface FakeObject {
  readonly metadata: Record<string, unknown> & { readonly name: string }
  readonly spec?: Record<string, unknown>
  readonly status?: object
}

/** A collection that can be listed and watched. */
class Objects {
  readonly items = new Map<string, FakeObject>()
  readonly #watches = new Set<ServerResponse>()
  readonly #events: { readonly revision: number; readonly line: string }[] = []
  #revision = 1

  list() {
    return { metadata: { resourceVersion: String(this.#revision) }, items: [...this.items.values()] }
  }

  watch(response: ServerResponse, since: number): void {
    response.writeHead(200).flushHeaders()
    for (const { revision, line } of this.#events) if (revision > since) response.write(line)
    this.#watches.add(response)
  }

  set(object: FakeObject): FakeObject {
    const { name } = object.metadata
    const isNew = !this.items.has(name)
    const stored = this.#revised(object)
    this.items.set(name, stored)
    this.#send(isNew ? 'ADDED' : 'MODIFIED', stored)
    return stored
  }

  delete(name: string): boolean {
    const found = this.items.get(name)
    this.items.delete(name)
    if (found) this.#send('DELETED', this.#revised(found))
    return found !== undefined
  }

  #revised(object: FakeObject): FakeObject {
    return { ...object, metadata: { ...object.metadata, resourceVersion: String(++this.#revision) } }
  }

  #send(type: string, object: object): void {
    const line = `${JSON.stringify({ type, object })}\n`
    this.#events.push({ revision: this.#revision, line })
    for (const response of this.#watches) response.write(line)
  }
}

const names = namesOf('mps.gamekeeper.com')

interface SceneOptions {
  /** By node. */
  readonly images?: Readonly<Record<string, readonly string[]>>
  readonly nodes?: readonly string[]
  /** Whether pulls succeed at once. Default: they stay in progress. */
  readonly isInstant?: boolean
  readonly pods?: readonly FakeObject[]
}

async function scene(options: SceneOptions = {}) {
  const clock = virtualClock()
  const nodes = new Objects()
  const pods = new Objects()
  const created: { readonly name: string; readonly node: string; readonly images: readonly string[] }[] = []
  let refusal: object | undefined
  /** What the kubelet says about each image. */
  const finish = (pod: FakeObject, state: (image: string) => object) => {
    const containers = pod.spec?.['containers'] as readonly { readonly name: string; readonly image: string }[]
    const containerStatuses = containers.map(({ name, image }) => ({ name, state: { waiting: state(image) } }))
    pods.set({ ...pod, status: { containerStatuses } })
  }
  const has = () => ({ reason: 'CreateContainerConfigError' })
  /** Calls in progress, and all calls so far. */
  const calls = { open: 0, count: 0 }
  const server = await fakeApiServer((request, response, { pathname, searchParams }) => {
    calls.count++
    calls.open++
    response.once('finish', () => calls.open--)
    const collection = pathname.endsWith('/nodes') ? nodes : pods
    if (searchParams.has('watch')) {
      calls.open--
      response.removeAllListeners('finish')
    }
    if (searchParams.has('watch')) return collection.watch(response, Number(searchParams.get('resourceVersion')))
    if (request.method === 'GET') return respond(response, 200, collection.list())
    if (request.method === 'DELETE') {
      const name = pathname.split('/').at(-1) ?? ''
      return pods.delete(name) ? respond(response, 200, {}) : respond(response, 404, statusOf(404, 'NotFound'))
    }
    void text(request).then((body) => {
      if (refusal) return respond(response, 403, refusal)
      const pod = JSON.parse(body) as FakeObject
      const containers = pod.spec?.['containers'] as readonly { readonly image: string }[]
      const node = String(pod.spec?.['nodeName'])
      created.push({ name: pod.metadata.name, node, images: containers.map(({ image }) => image) })
      const stored = pods.set(pod)
      respond(response, 201, stored)
      if (options.isInstant) finish(stored, has)
    })
  })
  const setNode = (
    name: string,
    change: { images?: readonly string[]; labels?: object; spec?: object; uid?: string } = {},
  ) => {
    const { images = options.images?.[name] ?? [], labels = {}, spec = {}, uid = `uid-of-${name}` } = change
    const conditions = [{ type: 'Ready', status: 'True' }]
    nodes.set({
      metadata: { name, uid, labels },
      spec: { ...spec },
      status: { conditions, images: images.map((image) => ({ names: [image] })) },
    })
  }
  for (const name of options.nodes ?? ['node1']) setNode(name)
  for (const pod of options.pods ?? []) pods.set(pod)
  const api = apiOf(configFor(server.url), { clock: clock, callTimeoutMs: 3_600_000 })
  const context = { api, clock: clock, logger: silentLogger }
  const cache = new NodeCache({ ...context, onChange() {}, onReport: (name, node) => pulls.nodeReported(name, node) })
  const warnings: string[] = []
  const pulls = new ImagePulls({
    ...{ ...context, names, namespaces: ['games'] },
    nodes: { nodes: () => cache.all(), node: (name) => cache.get(name) },
    open: () => Promise.resolve(),
    ownerOf: () => undefined,
    warn: (_, message) => warnings.push(message),
  })
  /** Resolves once no call is in progress, and none has followed. */
  const quiet = async () => {
    for (let turns = 0; turns < 20;) {
      const { count } = calls
      await new Promise((resolve) => setImmediate(resolve))
      turns = calls.open === 0 && calls.count === count ? turns + 1 : 0
    }
  }
  const pass = async (ms: number) => {
    for (let left = ms; left > 0; left -= 500) {
      await clock.advance(Math.min(left, 500))
      await quiet()
    }
  }
  await cache.list()
  const unfollow = cache.follow()
  onTestFinished(async () => {
    unfollow()
    await pulls.close()
  })
  return {
    ...{ clock, nodes, pods, created, pulls, server, warnings, setNode, finish, has },
    refuse: (body: object | undefined) => (refusal = body),
    pod: (node: string) => [...pods.items.values()].find(({ spec }) => spec?.['nodeName'] === node),
    /** Ten seconds. */
    settled: () => pass(10_000),
    /** Lets time pass until the condition holds. */
    async until(what: string, isTrue: () => boolean) {
      for (let waited = 0; !isTrue(); waited += 500) {
        if (waited > 600_000) throw new Error(`not within ten minutes: ${what}`)
        await pass(500)
      }
    },
  }
}

const buildOf = (image: string, spec: object = {}, name = 'arena') => ({
  build: { namespace: 'games', name, uid: `uid-of-${name}`, buildID: name },
  template: { spec: { containers: [{ name: 'game', image }], ...spec } },
})

const notPulled = (image: string) => ({ reason: 'ErrImagePull', message: `${image} not found` })

describe('images are pulled ahead', () => {
  it('to each node that lacks them, and their pods are deleted', async () => {
    const { created, pods, pulls, settled, until } = await scene({
      ...{ nodes: ['node1', 'node2', 'node3'], isInstant: true },
      images: { node2: ['docker.io/library/arena:1', 'docker.io/library/maps:1'], node3: ['docker.io/library/maps:1'] },
    })
    await pulls.prepare(buildOf('arena:1', { initContainers: [{ name: 'maps', image: 'maps:1' }] }))
    await until('both nodes have had a pod', () => created.length === 2 && pods.items.size === 0)
    await settled()
    expect(created.map(({ node, images }) => [node, images])).toEqual([
      ['node1', ['maps:1', 'arena:1']],
      ['node3', ['arena:1']],
    ])
  })

  it.each<[name: string, spec: object, node: object]>([
    ['that its servers do not select', { nodeSelector: { pool: 'games' } }, { labels: { pool: 'web' } }],
    ['that is cordoned', {}, { spec: { unschedulable: true } }],
    ['with a taint that they do not tolerate', {}, { spec: { taints: [{ key: 'web', effect: 'NoSchedule' }] } }],
    [
      'that their affinity excludes',
      {
        affinity: {
          nodeAffinity: {
            requiredDuringSchedulingIgnoredDuringExecution: {
              nodeSelectorTerms: [{ matchExpressions: [{ key: 'pool', operator: 'Exists' }] }],
            },
          },
        },
      },
      {},
    ],
  ])('but not to a node %s', async (_, spec, node) => {
    const { created, pulls, setNode, settled } = await scene({ nodes: [], isInstant: true })
    setNode('node1', node)
    await settled()
    await pulls.prepare(buildOf('arena:1', spec))
    await settled()
    expect(created).toEqual([])
  })

  it('once it can run servers, and once more if it is replaced by another node of that name', async () => {
    const { created, nodes, pulls, setNode, settled, until } = await scene({ isInstant: true, nodes: [] })
    await pulls.prepare(buildOf('arena:1'))
    setNode('node1', { spec: { taints: [{ key: 'node.kubernetes.io/not-ready', effect: 'NoSchedule' }] } })
    await settled()
    expect(created).toEqual([])
    setNode('node1')
    await until('the node has had a pod', () => created.length === 1)
    await settled()
    setNode('node1', { labels: { changed: 'yes' } })
    await settled()
    expect(created).toHaveLength(1)
    nodes.delete('node1')
    setNode('node1', { uid: 'another' })
    await until('the other node has had a pod', () => created.length === 2)
  })

  it('again if a node has lost one, after a pause', async () => {
    const { created, pods, pulls, setNode, settled, until } = await scene({ isInstant: true })
    await pulls.prepare(buildOf('arena:1'))
    await until('the image is pulled', () => created.length === 1 && pods.items.size === 0)
    setNode('node1', { images: ['docker.io/library/arena:1', 'other:1'] })
    await settled()
    setNode('node1', { images: ['other:1'] })
    await settled()
    expect(created).toHaveLength(1)
    await until('it is pulled again', () => created.length === 2)
    await settled()
    expect(pods.items.size).toBe(0)
  })

  it('by one pod on each node and thirty in the cluster at a time', async () => {
    const nodes = Array.from({ length: 35 }, (_, i) => `node${i}`)
    const { created, pods, pulls, settled, finish, has, until } = await scene({ nodes })
    await pulls.prepare(buildOf('arena:1'))
    await pulls.prepare(buildOf('lobby:1', {}, 'lobby'))
    await until('pods are created', () => created.length === 30)
    await settled()
    expect(new Set(created.map(({ node }) => node)).size).toBe(30)
    expect(pods.items.size).toBe(30)
    for (const pod of pods.items.values()) finish(pod, has)
    await until('the others follow', () => created.length === 60)
    await settled()
    expect(pods.items.size).toBe(30)
  })

  it('for a new version before the old one is forgotten: preparation waits for each node once', async () => {
    const on = await scene({ nodes: ['node1', 'node2'], images: { node1: ['arena:1'], node2: ['arena:1'] } })
    const old = new AbortController()
    await on.pulls.prepare(buildOf('arena:1'), { signal: old.signal })
    const progress: string[] = []
    let isReady = false
    old.abort()
    const ready = on.pulls
      .prepare(buildOf('arena:2'), { onProgress: (message) => void progress.push(message) })
      .then(() => (isReady = true))
    await on.until('both nodes pull', () => on.pods.items.size === 2)
    for (const pod of on.pods.items.values()) {
      if (pod.spec?.['nodeName'] === 'node1') on.finish(pod, on.has)
    }
    await on.settled()
    expect(isReady).toBe(false)
    const second = on.pod('node2')
    if (second) on.finish(second, notPulled)
    await on.until('it is prepared', () => isReady)
    await ready
    expect(progress).toEqual([
      'pulling images ahead: 0 of 2 nodes are done',
      'pulling images ahead: 1 of 2 nodes are done',
    ])
    expect(on.warnings).toEqual([
      'image arena:2 could not be pulled to node node2 ahead of its servers: arena:2 not found',
    ])
  })

  it('for at most five minutes before a new version starts', async () => {
    const { clock, pulls, until } = await scene({ images: { node1: ['arena:1'] } })
    await pulls.prepare(buildOf('arena:1'))
    const start = clock.elapsed()
    let tookMs: number | undefined
    void pulls.prepare(buildOf('arena:2')).then(() => (tookMs = clock.elapsed() - start))
    await until('it is prepared', () => tookMs !== undefined)
    expect(tookMs).toBe(300_000)
  })
})

describe('an image that cannot be pulled', () => {
  it('is tried again less and less often, and reported once a minute', async () => {
    const on = await scene({ nodes: ['node1', 'node2'] })
    const start = on.clock.elapsed()
    const times: number[] = []
    const fail = () => {
      for (const pod of on.pods.items.values()) {
        if (pod.status) continue
        times.push(on.clock.elapsed() - start)
        on.finish(pod, notPulled)
      }
    }
    await on.pulls.prepare(buildOf('arena:1'))
    await on.until('each node has had three pods', () => {
      fail()
      return times.length >= 6
    })
    expect(times.length).toBe(6)
    // 30 s after the first failure, and 60 s after the second.
    expect(times[2]).toBeGreaterThanOrEqual(30_000)
    expect(times[4]).toBeGreaterThanOrEqual(90_000)
    expect(on.warnings.length).toBeLessThanOrEqual(2)
    await on.until('the pods are gone', () => on.pods.items.size === 0)
  })

  it('does not hinder other images of the build', async () => {
    const { created, finish, has, pod, pods, pulls, settled, until } = await scene()
    await pulls.prepare(buildOf('arena:1', { initContainers: [{ name: 'maps', image: 'maps:1' }] }))
    await until('the pod exists', () => pods.items.size === 1)
    const first = pod('node1')
    if (first) finish(first, (image) => (image === 'maps:1' ? notPulled(image) : has()))
    await until('it is tried again', () => created.length === 2)
    await settled()
    expect(created[1]?.images).toEqual(['maps:1'])
  })

  it('is tried again at once with another template, which may have the credentials', async () => {
    const on = await scene()
    await on.pulls.prepare(buildOf('arena:1'))
    await on.until('the pod exists', () => on.pods.items.size === 1)
    const first = on.pod('node1')
    if (first) on.finish(first, notPulled)
    await on.settled()
    expect(on.pods.items.size).toBe(0)
    const start = on.clock.elapsed()
    void on.pulls.prepare(buildOf('arena:1', { imagePullSecrets: [{ name: 'registry' }] }))
    await on.until('there is another pod', () => on.created.length === 2)
    expect(on.clock.elapsed() - start).toBeLessThan(5_000)
    expect(on.pod('node1')?.spec).toMatchObject({ imagePullSecrets: [{ name: 'registry' }] })
  })

  it('is reported if the cluster forbids the pod', async () => {
    const { created, pulls, refuse, warnings, until } = await scene({ isInstant: true })
    refuse({ ...statusOf(403, 'Forbidden'), message: 'exceeded quota: pods=10' })
    await pulls.prepare(buildOf('arena:1'))
    await until('it is reported', () => warnings.length > 0)
    expect(warnings[0]).toMatch(/^image arena:1 could not be pulled to node node1 .*exceeded quota: pods=10/)
    refuse(undefined)
    await until('it is tried again', () => created.length === 1)
  })
})

describe('pods that pull images', () => {
  it('are deleted once their build is deleted, and nothing is watched without builds', async () => {
    const { pods, pulls, server, settled, until } = await scene({ nodes: ['node1', 'node2'] })
    const build = new AbortController()
    await pulls.prepare(buildOf('arena:1'), { signal: build.signal })
    await until('pods exist', () => pods.items.size === 2)
    build.abort()
    await until('they are deleted', () => pods.items.size === 0)
    await settled()
    const { length } = server.requests
    await settled()
    expect(server.requests.slice(length)).toEqual([])
  })

  it('are deleted when the host closes', async () => {
    const { pods, pulls, until } = await scene({ nodes: ['node1', 'node2'] })
    await pulls.prepare(buildOf('arena:1'))
    await until('pods exist', () => pods.items.size === 2)
    await pulls.close()
    expect(pods.items.size).toBe(0)
  })

  it('of an earlier leader are deleted, and their images pulled by new ones', async () => {
    const left = {
      metadata: { namespace: 'games', name: 'arena-pull-1', labels: { [names.imagePull]: 'arena' } },
      spec: { nodeName: 'node1', containers: [{ name: 'image-0', image: 'arena:1' }] },
    }
    const { created, pods, pulls, until } = await scene({ pods: [left] })
    await pulls.prepare(buildOf('arena:1'))
    await until('there is a new one', () => created.length === 1 && !pods.items.has('arena-pull-1'))
  })

  it('that somebody deletes are created again after a pause', async () => {
    const { created, pods, pulls, settled, until } = await scene()
    await pulls.prepare(buildOf('arena:1'))
    await until('a pod exists', () => pods.items.size === 1)
    pods.delete(created[0]?.name ?? '')
    await settled()
    expect(created).toHaveLength(1)
    await until('there is another', () => created.length === 2)
  })

  it('end when their node is cordoned', async () => {
    const { created, pods, pulls, setNode, settled, until } = await scene()
    await pulls.prepare(buildOf('arena:1'))
    await until('a pod exists', () => pods.items.size === 1)
    setNode('node1', { spec: { unschedulable: true } })
    await until('it is deleted', () => pods.items.size === 0)
    await settled()
    expect(created).toHaveLength(1)
  })
})
