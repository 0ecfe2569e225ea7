import { randomUUID } from 'node:crypto'
import { kubernetesBackend } from 'gamekeeper/kubernetes'
import { memoryBackend } from 'gamekeeper/memory'
import { expect, it, onTestFinished, vi } from 'vitest'
import { KubernetesApi } from '../../../../adapters/kubernetes/client/api.js'
import { defaultKubeConfig } from '../../../../adapters/kubernetes/client/kube-config.js'
import { systemClock } from '../../../../src/contracts/clock.js'
import { FleetError } from '../../../../src/contracts/errors.js'
import type { FleetEvent } from '../../../../src/contracts/events.js'
import type { FleetOptions } from '../../../../src/contracts/options.js'
import { createFleet } from '../../../../src/fleet/create-fleet.js'
import { isObject } from '../../../../src/rules/validation/problem.js'
import { minimalBuild, minimalServer } from '../../../../src/testing/records.js'
import { until } from '../../../e2e/until.js'
import { kubectl, kubectlWith } from '../support/cluster.js'
import { describeOnCluster } from '../support/describe-on-cluster.js'
import { buildManifest, closeHost, openFleet, openStore, tableOf } from '../support/fleets.js'
import { ownNamespaces } from '../support/own-namespace.js'
import { nextRange, specOf } from '../support/support.js'

const template = { spec: { containers: [{ name: 'game', image: 'arena:1' }] } }

describeOnCluster('a fleet with records in custom resources', () => {
  vi.setConfig({ testTimeout: 120_000 })
  const { api, make } = ownNamespaces()

  async function place() {
    const namespace = await make()
    const k = (...args: readonly string[]) => kubectl('-n', namespace, ...args)
    return { namespace, k, serversNow: async () => tableOf(await k('get', 'gs')) }
  }

  /** A fleet with a build created through its API, with two servers standing by. */
  async function scene(options: Partial<FleetOptions> = {}) {
    const { namespace, k, serversNow } = await place()
    const fleet = await openFleet(api, namespace, { limits: { resyncIntervalMs: 600_000 }, ...options })
    const events: FleetEvent[] = []
    fleet.on('*', (event) => events.push(event))
    const spec = { buildID: 'id-of-arena', standingBy: 2, max: 5, portsToExpose: [7777], template }
    await fleet.builds.create({ metadata: { namespace, name: 'arena' }, spec })
    const standing = (count: number) =>
      until(`${count} servers stand by`, async () => {
        const { status } = await fleet.builds.get({ namespace, name: 'arena' })
        return status.currentStandingBy === count && status.currentPending === 0
      })
    await standing(2)
    return { namespace, fleet, k, serversNow, standing, events }
  }

  const record = (namespace: string) => ({ ...minimalBuild({ namespace, name: 'arena' }), uid: 'u1' })

  /** The manifest as kept in a file: without fields that the API server sets. */
  async function savedBuild(namespace: string): Promise<{ metadata: object; [field: string]: unknown }> {
    const saved: unknown = JSON.parse(await kubectl('-n', namespace, 'get', 'gsb', 'arena', '-o', 'json'))
    if (!isObject(saved) || !isObject(saved['metadata'])) throw new Error('kubectl shows no build')
    const { uid: _, resourceVersion: __, creationTimestamp: ___, ...metadata } = saved['metadata']
    return { ...saved, metadata }
  }

  it('keeps its matches when a build’s manifest is replaced, and applies the new spec', async () => {
    const { namespace, fleet, k, serversNow, standing, events } = await scene()
    const sessionID = randomUUID()
    await fleet.allocate({ buildID: 'id-of-arena', sessionID })
    await standing(2)
    const before = await serversNow()
    await kubectlWith(buildManifest(namespace, 'arena', { standingBy: 3, max: 5 }), 'replace', '-f', '-')
    await standing(3)
    const after = await serversNow()
    expect(after.map((row) => row['NAME'])).toEqual(expect.arrayContaining(before.map((row) => row['NAME'])))
    expect(after.filter((row) => row['SESSIONID'] === sessionID)).toMatchObject([{ STATE: 'Active' }])
    expect(events.filter(({ type }) => type === 'ServerEnding' || type === 'BuildDeleted')).toEqual([])
    // A later host does not treat it as another build either.
    const store = await openStore(api, namespace)
    const [build] = await store.builds.list()
    const servers = await store.servers.list()
    await store.close()
    expect(new Set(servers.map((found) => found.record.buildUid))).toEqual(new Set([build?.record.uid]))
    await k('delete', 'gsb', 'arena')
  })

  it('treats a copy of a build, and a build that was deleted and applied again, as a new build', async () => {
    const { namespace, k } = await place()
    const store = await openStore(api, namespace)
    onTestFinished(() => store.close())
    await store.builds.create(record(namespace))
    const saved = await savedBuild(namespace)
    const copy = { ...saved, metadata: { ...saved.metadata, name: 'copy' } }
    await kubectlWith(JSON.stringify(copy), 'create', '-f', '-')
    await k('delete', 'gsb', 'arena')
    await kubectlWith(JSON.stringify(saved), 'create', '-f', '-')
    const listed = (await store.builds.list()).map((found) => found.record)
    const uids = [record(namespace), ...listed].map(({ uid }) => uid)
    expect(new Set(uids).size).toBe(3)
  })

  it('creates only servers with an owner for a build created through the API', async () => {
    const { namespace, k } = await place()
    const store = await openStore(api, namespace)
    onTestFinished(() => store.close())
    await store.builds.create(record(namespace))
    await store.servers.create({ ...minimalServer({ namespace, name: 'arena-1' }), buildUid: 'u1' })
    expect(await k('get', 'gs', '-o', 'name')).not.toBe('')
    await k('delete', 'gsb', 'arena')
    await until('the cluster has collected it', async () => (await k('get', 'gs', '-o', 'name')) === '')
  })

  it('has the servers of a build created through the API garbage-collected while no host is running', async () => {
    const { fleet, k, serversNow } = await scene()
    await fleet.close()
    expect(await serversNow()).toHaveLength(2)
    await k('delete', 'gsb', 'arena')
    await until('the cluster has collected them', async () => (await k('get', 'gs', '-o', 'name')) === '')
  })

  it('has the pods of a build created through the API garbage-collected as well', async () => {
    const { namespace, k } = await place()
    const places = { namespaces: [namespace], systemNamespace: namespace, portRange: nextRange(10), leaseMs: 15_000 }
    // Heartbeats are not needed: only the pods matter here.
    const fleet = await createFleet({ backend: kubernetesBackend(places), agent: { external: '192.0.2.1:56001' } })
    onTestFinished(() => fleet.close())
    const { template: pod } = specOf(namespace, 'sleep 600', { pod: { terminationGracePeriodSeconds: 0 } })
    const spec = { buildID: 'id-of-arena', standingBy: 2, max: 2, portsToExpose: [7777], template: pod }
    await until('this host leads', () => fleet.builds.list().then(() => true))
    await fleet.builds.create({ metadata: { namespace, name: 'arena' }, spec })
    const pods = async () => (await k('get', 'pods', '-o', 'name')).split('\n').filter((line) => line !== '')
    await until('two pods run', async () => {
      const phases = await k('get', 'pods', '-o', 'jsonpath={.items[*].status.phase}')
      return phases === 'Running Running'
    })
    await fleet.close()
    expect(await pods()).toHaveLength(2)
    await k('delete', 'gsb', 'arena')
    await until('the cluster has collected them', async () => (await pods()).length === 0)
  })

  it('creates servers for the current build even if it missed that the build was recreated', async () => {
    const { namespace, k } = await place()
    const store = await openStore(api, namespace)
    onTestFinished(() => store.close())
    await store.builds.create(record(namespace))
    await store.builds.list()
    const saved = await savedBuild(namespace)
    await k('delete', 'gsb', 'arena')
    await kubectlWith(JSON.stringify(saved), 'create', '-f', '-')
    const [build] = await store.builds.list()
    const server = { ...minimalServer({ namespace, name: 'arena-1' }), buildUid: build?.record.uid ?? '' }
    await store.servers.create(server)
    const show = (kind: string, path: string) => k('get', kind, '-o', `jsonpath={.items[*]${path}}`)
    expect(await show('gs', '.metadata.ownerReferences[*].uid')).toBe(await show('gsb', '.metadata.uid'))
    // A server of the old build is garbage-collected with it.
    await store.servers.create({ ...minimalServer({ namespace, name: 'arena-2' }), uid: 'u2', buildUid: 'u1' })
    await until('it is collected', async () => (await k('get', 'gs', '-o', 'name')).trim().split('\n').length === 1)
    expect(await show('gs', '.metadata.name')).toBe('arena-1')
  })

  it('accepts no heartbeat for a server whose token was encrypted with a lost key', async () => {
    // Outlives its host, like pods.
    const backend = memoryBackend({ clock: systemClock })
    const { namespace, fleet, k } = await scene({ backend })
    await fleet.allocate({ buildID: 'id-of-arena', sessionID: randomUUID(), sessionCookie: 'a secret' })
    // A game that knows of no match when its token is lost never hears of one, and ends.
    await until('its game is in the match', async () => backend.servers().some(({ state }) => state === 'Active'))
    await closeHost(fleet)
    const tokensNow = async () => {
      const store = await openStore(api, namespace)
      const [first, again] = [await store.servers.list(), await store.servers.list()]
      await store.close()
      const tokens = first.map(({ record: { name, token } }) => ({ name, token }))
      // Servers whose games know only the lost tokens may be replaced meanwhile.
      const later = again.map(({ record: { name, token } }) => ({ name, token }))
      const inBoth = tokens.filter(({ name }) => later.some((each) => each.name === name))
      expect(inBoth).not.toEqual([])
      expect(later).toEqual(expect.arrayContaining(inBoth))
      return tokens
    }
    const before = await tokensNow()
    await k('delete', 'secret', 'gamekeeper-key')
    // So an operator says that the key is lost for good.
    await k('create', 'secret', 'generic', 'gamekeeper-key')
    const next = await openFleet(api, namespace, { backend })
    const active = (await next.servers.list()).filter(({ status }) => status.state === 'Active')
    expect(active).toHaveLength(1)
    // Without those that have replaced an idle server meanwhile.
    const after = (await tokensNow()).filter(({ name }) => before.some((old) => old.name === name))
    expect(after.map(({ name }) => name)).toContain(active[0]?.metadata.name)
    expect(after.map(({ token }) => token).filter((token) => !/^[0-9a-f]{64}$/.test(token))).toEqual([])
    expect(after.filter(({ token }) => before.some((old) => old.token === token))).toEqual([])
    const beat = { state: 'Active', health: 'Healthy', players: ['mallory'] } as const
    const replyTo = (id: string) => Object.entries(next.heartbeat(id, beat))
    const [end, proceed] = ['Terminate', 'Continue'].map((operation) => [
      ['operation', operation],
      ['nextHeartbeatIntervalMs', 1000],
    ])
    expect(replyTo('unknown.token')).toEqual(end)
    for (const { name, token } of before) {
      // The match continues, and the token stays secret.
      const expected = name === active[0]?.metadata.name ? proceed : end
      expect([replyTo(`${name}.`), replyTo(`${name}.${token}`)]).toEqual([expected, expected])
    }
    const [{ metadata } = { metadata: { name: '' } }] = active
    const { spec } = await next.details.get({ namespace, name: metadata.name })
    expect(spec.connectedPlayers).toEqual([])
  })

  it('recognizes its own build when the response to its creation was lost', async () => {
    const { namespace } = await place()
    const lossy = new LossyApi()
    const store = await openStore(lossy, namespace)
    onTestFinished(async () => {
      await store.close()
      lossy.close()
    })
    for (const method of ['POST', 'PUT'] as const) {
      const build = { ...record(namespace), name: `arena-${method.toLowerCase()}`, uid: `uid-${method}` }
      lossy.next = method
      await expect(store.builds.create(build)).rejects.toMatchObject({ code: 'unavailable' })
      expect(lossy.next).toBeUndefined()
      const found = await store.builds.get(build)
      expect(found?.record).toEqual(build)
      // The missing status is written with the next write.
      await store.builds.update({ ...build, crashes: 1 }, found?.revision ?? '')
      const other = await openStore(api, namespace)
      expect((await other.builds.get(build))?.record).toEqual({ ...build, crashes: 1 })
      await other.close()
    }
  })
})

/** Drops the response to the next call with this method. */
class LossyApi extends KubernetesApi {
  next: 'POST' | 'PUT' | undefined

  constructor() {
    const limits = { requestsPerSecond: 1_000, connections: 8, callTimeoutMs: 20_000 }
    super({ config: defaultKubeConfig(), clock: systemClock, ...limits })
  }

  override async object(call: Parameters<KubernetesApi['object']>[0]): ReturnType<KubernetesApi['object']> {
    const answer = await super.object(call)
    if (call.method !== this.next || !call.path.includes('gameserverbuilds')) return answer
    this.next = undefined
    throw new FleetError('unavailable', 'the answer was lost')
  }
}
