/**
 * A large fleet on hollow nodes, whose pods run nothing: how fast it comes up, and that it asks for nothing once it is there. The
 * games' side is played here.
 */
import { createFleet } from 'gamekeeper'
import { kubernetesBackend } from 'gamekeeper/kubernetes'
import { afterAll, beforeAll, expect, it, onTestFinished, vi } from 'vitest'
import { defaultKubeConfig } from '../../../adapters/kubernetes/kube-config.js'
import { clusterApi, kubectl, makeNamespace, removeNamespace } from './cluster.js'
import { countingProxy } from './counting-proxy.js'
import { installDefinitions } from './definitions.js'
import { describeOnCluster } from './describe-on-cluster.js'

const size = 400
const agent = { mounted: '192.0.2.1:56001' }
const leastPerSecond = 50
const patience = { timeout: 120_000, interval: 50 }

describeOnCluster('a fleet of 400 on hollow nodes', () => {
  const api = clusterApi()
  let space = ''
  beforeAll(async () => {
    await installDefinitions()
    space = await makeNamespace(api)
  }, 60_000)
  afterAll(async () => {
    await removeNamespace(api, space)
    api.close()
  })

  it('comes up at 50 a second or more, and then asks for nothing', { timeout: 300_000 }, async () => {
    const nodes = await kubectl('get', 'nodes', '-l', 'hollow=true', '-o', 'name')
    expect(nodes.trim().split('\n').length, 'hollow nodes, each for 110 pods').toBeGreaterThanOrEqual(4)
    const ids = new Map<string, string>()
    const backend = kubernetesBackend({ namespaces: [space], portRange: '22000-25000' })
    const create = backend.create.bind(backend)
    backend.create = (spec, options) => {
      ids.set(spec.ref.name, spec.sdk.sessionHostId)
      return create(spec, options)
    }
    let fleet = await createFleet({ backend, agent })
    onTestFinished(() => fleet.close())
    const beating = play(() => {
      for (const id of ids.values()) fleet.heartbeat(id, { state: 'StandingBy', health: 'Healthy', players: [] })
    })
    onTestFinished(beating.stop)
    const ready = new Set<string>()
    fleet.on('ServerStateChanged', ({ server, to }) => void (to === 'StandingBy' && ready.add(server.name)))

    const begun = performance.now()
    await fleet.builds.create({
      metadata: { name: 'arena', namespace: space },
      spec: { buildID: `id-of-${space}`, standingBy: size, max: size, portsToExpose: [7777], template },
    })
    await vi.waitFor(() => expect(ready.size).toBe(size), patience)
    const perSecond = size / ((performance.now() - begun) / 1000)
    console.log(`${size} servers stand by at ${perSecond.toFixed(0)} a second`)
    expect(perSecond).toBeGreaterThanOrEqual(leastPerSecond)

    // Another host, whose requests are seen.
    await fleet.close()
    const proxy = await countingProxy(defaultKubeConfig())
    onTestFinished(() => proxy.close())
    const counted = kubernetesBackend({ kubeConfig: proxy.config, namespaces: [space], leaseMs: 3_000 })
    fleet = await createFleet({ backend: counted, agent, limits: { resyncMs: 2_000 } })
    const isLease = (request: string) => request.includes('/leases/')
    const renewals = (since: number) => proxy.asked.slice(since).filter(isLease).length
    await vi.waitFor(async () => {
      const { status } = await fleet.builds.get({ namespace: space, name: 'arena' })
      expect(status).toMatchObject({ currentStandingBy: size, crashesCount: 0 })
      expect((await fleet.servers.list()).every((server) => server.status.health === 'Healthy')).toBe(true)
    }, patience)
    // What it wrote on the way there is behind it once it renews its lease and does nothing else.
    await vi.waitFor(async () => expect(proxy.asked.slice(-3).every(isLease)).toBe(true), patience)
    const settledAt = proxy.asked.length
    await vi.waitFor(() => expect(renewals(settledAt)).toBeGreaterThanOrEqual(10), patience)
    expect(
      proxy.asked.slice(settledAt).filter((request) => !isLease(request) && !request.includes('watch=true')),
    ).toEqual([])
  })
})

const template = {
  spec: {
    automountServiceAccountToken: false,
    nodeSelector: { hollow: 'true' },
    tolerations: [{ key: 'kubemark', operator: 'Exists' }],
    containers: [{ name: 'game', image: 'arena', ports: [{ containerPort: 7777 }] }],
  },
}

/** All of them once a second. */
function play(beat: () => void): { readonly stop: () => void } {
  const timer = setInterval(beat, 1_000)
  return { stop: () => clearInterval(timer) }
}
