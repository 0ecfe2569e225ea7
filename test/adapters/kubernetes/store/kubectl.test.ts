import { randomUUID } from 'node:crypto'
import { expect, it, onTestFinished } from 'vitest'
import { defaultKubeConfig } from '../../../../adapters/kubernetes/client/kube-config.js'
import type { FleetEvent } from '../../../../src/contracts/events.js'
import { until } from '../../../e2e/until.js'
import { clusterApi, kubectl, kubectlWith } from '../support/cluster.js'
import { countingProxy } from '../support/counting-proxy.js'
import { describeOnCluster } from '../support/describe-on-cluster.js'
import { buildManifest, openFleet, openStore, tableOf } from '../support/fleets.js'
import { ownNamespaces } from '../support/own-namespace.js'

describeOnCluster('a fleet managed with kubectl', () => {
  const { api, make } = ownNamespaces()

  /** A fleet in its own namespace. */
  async function scene(options?: Parameters<typeof openFleet>[2]) {
    const namespace = await make()
    const fleet = await openFleet(api, namespace, options)
    const k = (...args: readonly string[]) => kubectl('-n', namespace, ...args)
    const apply = (name: string, spec: Parameters<typeof buildManifest>[2]) =>
      kubectlWith(buildManifest(namespace, name, spec), 'apply', '-f', '-')
    const table = async (kind: string) => tableOf(await k('get', kind))
    const standing = (count: number, name = 'arena') =>
      until(`${count} servers stand by`, async () => {
        const { status } = await fleet.builds.get({ namespace, name })
        return status.currentStandingBy === count && status.currentActive + status.currentPending === 0
      })
    return { namespace, fleet, k, apply, table, standing }
  }

  it('creates a build on apply, and shows builds, servers and players in columns', async () => {
    const { namespace, fleet, apply, table, standing, k } = await scene()
    await apply('arena', { standingBy: 2, max: 3 })
    await standing(2)
    const sessionID = randomUUID()
    const allocated = await fleet.allocate({ buildID: 'id-of-arena', sessionID })
    const [build] = await until('the figures are shown', async () => {
      const rows = await table('gsb')
      const isReady = rows[0]?.['STANDBY'] === '2/2' && rows[0]['READY'] === 'True'
      return rows[0]?.['ACTIVE'] === '1' && isReady ? rows : undefined
    })
    expect(Object.keys(build ?? {})).toEqual(['NAME', 'STANDBY', 'ACTIVE', 'CRASHES', 'HEALTH', 'READY', 'AGE'])
    expect(build).toMatchObject({ NAME: 'arena', STANDBY: '2/2', ACTIVE: '1', CRASHES: '0', HEALTH: 'Healthy' })
    expect(build?.['AGE']).toMatch(/^\d+[sm]$/)
    const servers = await table('gs')
    const columns = ['NAME', 'HEALTH', 'STATE', 'PUBLICIP', 'PORTS', 'SESSIONID', 'AGE']
    expect(Object.keys(servers[0] ?? {})).toEqual(columns)
    const states = servers.map((row) => row['STATE'])
    expect([states.length, states.filter((state) => state === 'StandingBy').length]).toEqual([3, 2])
    const active = servers.find((row) => row['STATE'] === 'Active')
    expect(active).toMatchObject({
      HEALTH: 'Healthy',
      PUBLICIP: allocated.IPV4Address,
      PORTS: allocated.Ports,
      SESSIONID: sessionID,
    })
    const ofBuild = tableOf(await k('get', 'gs', '-l', 'mps.gamekeeper.com/build=arena'))
    expect(ofBuild).toHaveLength(3)
    const store = await openStore(api, namespace)
    const name = active?.['NAME'] ?? ''
    await store.details.create({ namespace, name, build: 'arena', players: ['amie', 'bob'] })
    await store.close()
    expect(await table('gsd')).toMatchObject([{ NAME: name, PLAYERS: '2' }])
  })

  it('has short names of its own, and shows everything under its category', async () => {
    const { k, apply, standing } = await scene()
    await apply('arena', { standingBy: 1, max: 1 })
    await standing(1)
    expect((await k('get', 'gkb', '-o', 'name')).trim()).toBe('gameserverbuild.mps.gamekeeper.com/arena')
    const all = (await k('get', 'gamekeeper', '-o', 'name')).trim().split('\n')
    expect(all.toSorted()).toEqual([
      (await k('get', 'gks', '-o', 'name')).trim(),
      'gameserverbuild.mps.gamekeeper.com/arena',
    ])
  })

  it('scales immediately on kubectl scale and kubectl edit', async () => {
    const { k, apply, standing } = await scene({ limits: { resyncIntervalMs: 600_000 } })
    await apply('arena', { standingBy: 1, max: 6 })
    await standing(1)
    await k('scale', 'gsb', 'arena', '--replicas', '5')
    await standing(5)
    await k('patch', 'gsb', 'arena', '--type', 'merge', '-p', '{"spec":{"standingBy":2,"max":2}}')
    await standing(2)
  })

  it('takes an edit from the watch, without requesting the build again', async () => {
    const namespace = await make()
    const proxy = await countingProxy(defaultKubeConfig())
    onTestFinished(() => proxy.close())
    const counted = clusterApi(proxy.config)
    onTestFinished(() => counted.close())
    const fleet = await openFleet(counted, namespace)
    const isStandingBy = (count: number) => async () =>
      (await fleet.builds.get({ namespace, name: 'arena' })).status.currentStandingBy === count
    await kubectlWith(buildManifest(namespace, 'arena', { standingBy: 1, max: 6 }), 'apply', '-f', '-')
    await until('1 server stands by', isStandingBy(1))
    const before = proxy.requests.length
    for (const standingBy of [3, 2, 4]) {
      const spec = JSON.stringify({ spec: { standingBy } })
      await kubectl('-n', namespace, 'patch', 'gsb', 'arena', '--type', 'merge', '-p', spec)
      await until(`${standingBy} servers stand by`, isStandingBy(standingBy))
    }
    const reads = proxy.requests.slice(before).filter((request) => /^GET \S+\/gameserverbuilds\/arena$/.test(request))
    expect(reads).toEqual([])
  })

  it('clamps standingBy to max, and reports it in a condition and an Event until it is corrected', async () => {
    const { namespace, k, apply, standing, fleet } = await scene({ limits: { resyncIntervalMs: 600_000 } })
    await apply('arena', { standingBy: 1, max: 3 })
    await standing(1)
    await k('scale', 'gsb', 'arena', '--replicas', '5')
    await standing(3)
    const problems = '.status.conditions[?(@.type!="Ready")]'
    const conditionsNow = async () =>
      k('get', 'gsb', 'arena', '-o', `jsonpath={${problems}.type}|{${problems}.message}`)
    const message = 'standingBy 5 exceeds max 3; 3 is used'
    await until('the condition is shown', async () => (await conditionsNow()) === `Clamped|${message}`)
    // It has all the servers that it may have.
    await k('wait', '--for=condition=Ready', 'gsb/arena', '--timeout=30s')
    await until('the Event is shown', async () => {
      const events = await k('get', 'events', '-o', 'jsonpath={range .items[*]}{.reason}: {.message}{"\\n"}{end}')
      return events.includes(`Clamped: ${message}`)
    })
    expect(await k('describe', 'gsb', 'arena')).toContain(message)
    await fleet.builds.patch({ namespace, name: 'arena' }, { max: 5 })
    await standing(5)
    await until('the condition is gone', async () => (await conditionsNow()) === '|')
  })

  it('keeps servers running when an edit breaks the template, and continues when it is corrected', async () => {
    const { k, apply, standing } = await scene({ limits: { resyncIntervalMs: 600_000 } })
    await apply('arena', { standingBy: 1, max: 3 })
    await standing(1)
    const limited = (cpu: string) => {
      const containers = [{ name: 'game', image: 'arena:1', resources: { limits: { cpu } } }]
      return JSON.stringify({ spec: { standingBy: 2, template: { spec: { containers } } } })
    }
    await k('patch', 'gsb', 'arena', '--type', 'merge', '-p', limited('a lot'))
    await until('the condition is shown', async () => {
      const conditions = await k('get', 'gsb', 'arena', '-o', 'jsonpath={.status.conditions}')
      return conditions.includes('"type":"Invalid"') && conditions.includes('resources.limits.cpu must be')
    })
    expect(tableOf(await k('get', 'gs'))).toHaveLength(1)
    await k('patch', 'gsb', 'arena', '--type', 'merge', '-p', limited('500m'))
    await standing(2)
  })

  it('reports a buildID that another build uses, and accepts the build once it is free', async () => {
    const { k, apply, standing } = await scene()
    await apply('arena', { standingBy: 1, max: 3 })
    await standing(1)
    await apply('second', { standingBy: 1, max: 3, buildID: 'id-of-arena' })
    await until('the condition is shown', async () => {
      const conditions = await k('get', 'gsb', 'second', '-o', 'jsonpath={.status.conditions}')
      return conditions.includes('is already used by build')
    })
    expect(await k('get', 'gs', '-l', 'mps.gamekeeper.com/build=second', '-o', 'name')).toBe('')
    await k('delete', 'gsb', 'arena')
    await standing(1, 'second')
  })

  it('terminates a deleted server, and replaces it', async () => {
    const { namespace, fleet, k, apply, standing } = await scene({ limits: { resyncIntervalMs: 600_000 } })
    const endings: string[] = []
    fleet.on('ServerEnding', ({ server, reason }) => endings.push(`${server.name} ${reason}`))
    await apply('arena', { standingBy: 2, max: 3 })
    await standing(2)
    const [first] = await fleet.servers.list({ build: { namespace, name: 'arena' } })
    const name = first?.metadata.name ?? ''
    await k('delete', 'gs', name)
    await until('it is replaced', async () => {
      const names = (await fleet.servers.list()).map(({ metadata }) => metadata.name)
      return !names.includes(name) && names.length === 2
    })
    await standing(2)
    expect(endings).toEqual([`${name} Deleted`])
  })

  it('terminates all servers of a deleted build, including those with a match', async () => {
    const { fleet, k, apply, standing } = await scene({ limits: { resyncIntervalMs: 600_000 } })
    const events: FleetEvent['type'][] = []
    fleet.on('*', ({ type }) => events.push(type))
    await apply('arena', { standingBy: 2, max: 3 })
    await standing(2)
    await fleet.allocate({ buildID: 'id-of-arena', sessionID: randomUUID() })
    await k('delete', 'gsb', 'arena')
    await until('all are gone', async () => (await fleet.servers.list()).length === 0)
    expect(await fleet.builds.list()).toEqual([])
    expect(events).toContain('BuildDeleted')
    await until('their objects are gone', async () => (await k('get', 'gs', '-o', 'name')) === '')
  })

  it('has servers and details garbage-collected with their build while no host is running', async () => {
    const { namespace, fleet, k, apply, standing } = await scene()
    await apply('arena', { standingBy: 2, max: 2 })
    await standing(2)
    await fleet.close()
    expect(tableOf(await k('get', 'gs'))).toHaveLength(2)
    await k('delete', 'gsb', 'arena')
    await until('the cluster has collected them', async () => (await k('get', 'gs', '-o', 'name')) === '')
    const next = await openFleet(api, namespace)
    expect(await next.servers.list()).toEqual([])
  })

  it('recovers everything after a restart, including a session and a drain', async () => {
    const { namespace, fleet, k, apply, standing } = await scene()
    await apply('arena', { standingBy: 2, max: 3 })
    await standing(2)
    const sessionID = randomUUID()
    const allocated = await fleet.allocate({ buildID: 'id-of-arena', sessionID })
    await fleet.close()
    const shown = await k('get', 'gs', '-o', 'jsonpath={.items[*].status.sessionID}')
    expect(shown.trim()).toBe(sessionID)
    const store = await openStore(api, namespace)
    const records = await store.servers.list()
    expect(records.filter(({ record }) => record.sessions[0]?.id === sessionID)).toHaveLength(1)
    const active = records.find(({ record }) => record.sessions[0])?.record
    expect(`${active?.address} ${active?.ports?.map((pair) => `${pair.container}:${pair.public}`).join()}`).toBe(
      `${allocated.IPV4Address} ${allocated.Ports}`,
    )
    await store.close()
  })

  it('never shows the token of a server', async () => {
    const { namespace, fleet, k, apply, standing } = await scene()
    await apply('arena', { standingBy: 1, max: 1 })
    await standing(1)
    const store = await openStore(api, namespace)
    const [server] = await store.servers.list()
    await store.close()
    expect(server?.record.token).toMatch(/^[0-9a-f]{32}$/)
    expect(await k('get', 'gs,gsb,gsd,events', '-o', 'yaml')).not.toContain(server?.record.token)
    await fleet.close()
  })
})
