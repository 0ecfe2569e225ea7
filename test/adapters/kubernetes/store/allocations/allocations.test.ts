/** A GameServerAllocation is carried out once, and its status says how it went. */
import { memoryBackend } from 'gamekeeper/memory'
import { beforeAll, expect, it, onTestFinished, vi } from 'vitest'
import { systemClock } from '../../../../../src/contracts/clock.js'
import type { FleetEvent } from '../../../../../src/contracts/events.js'
import { silentLogger } from '../../../../../src/contracts/logger.js'
import { createFleet } from '../../../../../src/fleet/create-fleet.js'
import { defaultApiGroup } from '../../../../../src/rules/model/wire.js'
import { isObject } from '../../../../../src/rules/validation/problem.js'
import { until } from '../../../../e2e/until.js'
import { kubectl, kubectlWith, namespaceName } from '../../support/cluster.js'
import { describeOnCluster } from '../../support/describe-on-cluster.js'
import { buildManifest, openFleet, openStore, tableOf } from '../../support/fleets.js'
import { ownNamespaces } from '../../support/own-namespace.js'

function manifest(name: string, spec: object): object {
  return {
    apiVersion: `${defaultApiGroup}/v1alpha1`,
    kind: 'GameServerAllocation',
    metadata: { name },
    spec,
  }
}

describeOnCluster('a GameServerAllocation', () => {
  vi.setConfig({ testTimeout: 120_000 })
  const { api, make } = ownNamespaces()
  const namespace = namespaceName()
  const k = (...args: readonly string[]) => kubectl('-n', namespace, ...args)
  const create = (...objects: readonly object[]) =>
    kubectlWith(
      JSON.stringify({ apiVersion: 'v1', kind: 'List', items: objects }),
      '-n',
      namespace,
      'create',
      '-f',
      '-',
    )
  const statusOf = async (name: string): Promise<Readonly<Record<string, unknown>>> => {
    const { status }: { status?: unknown } = JSON.parse(await k('get', 'gka', name, '-o', 'json'))
    return isObject(status) ? status : {}
  }
  const untilState = (name: string, state: string) =>
    until(`${name} is ${state}`, async () => {
      const status = await statusOf(name)
      return status['state'] === state && status
    })
  const build = (name: string, standingBy: number, max = standingBy) =>
    kubectlWith(buildManifest(namespace, name, { standingBy, max }), 'apply', '-f', '-')
  beforeAll(() => make(namespace))

  it('gets a server, whose address, ports and session its status contains', async () => {
    const fleet = await openFleet(api, namespace, { logger: false })
    await build('arena', 1, 4)
    await create(manifest('match', { buildID: 'id-of-arena', initialPlayers: ['amie'], labels: { map: 'dust' } }))
    const status = await untilState('match', 'Allocated')
    const uid = await k('get', 'gka', 'match', '-o', 'jsonpath={.metadata.uid}')
    const { address, ports, server } = await fleet.allocate({ buildID: 'id-of-arena', sessionID: uid })
    expect(status).toEqual({
      ...{ state: 'Allocated', sessionID: uid, gameServer: server.name, address, ports, nodeName: 'memory' },
      ...{ observedGeneration: 1, finishedAt: expect.any(String) },
    })
    expect(tableOf(await k('get', 'gka'))).toMatchObject([
      { NAME: 'match', STATE: 'Allocated', SERVER: server.name, PORT: String(ports[0]?.public) },
    ])
    const allocated = await fleet.servers.get(server)
    expect(allocated).toMatchObject({ metadata: { labels: { map: 'dust' } }, status: { state: 'Active' } })
  })

  it('waits for a server, says so, and then gets it', async () => {
    let isReady = false
    const backend = memoryBackend({ clock: systemClock, script: () => ({ autoReady: isReady }) })
    await openFleet(api, namespace, { backend, logger: false })
    await build('slow', 1)
    await create(manifest('patient', { buildID: 'id-of-slow', waitSeconds: 600 }))
    expect(await untilState('patient', 'Waiting')).toMatchObject({
      reason: 'none-standing-by',
      message: expect.stringContaining('build slow'),
    })
    isReady = true
    for (const { ref } of await backend.list()) backend.server(ref).ready()
    expect(await untilState('patient', 'Allocated')).not.toHaveProperty('reason')
  })

  it('waits for its build, too, when both are applied at once', async () => {
    await openFleet(api, namespace, { logger: false })
    await create(manifest('early', { buildID: 'id-of-later', waitSeconds: 600 }))
    expect(await untilState('early', 'Waiting')).toMatchObject({ reason: 'not-found' })
    await build('later', 1)
    await untilState('early', 'Allocated')
  })

  it('fails when its time is over, and at once when it is not valid, and says why', async () => {
    await openFleet(api, namespace, { logger: false })
    await create(
      manifest('late', { buildID: 'unknown', waitSeconds: 0 }),
      manifest('invalid', { select: [{ builds: ['x'] }], order: { by: 'packed', counter: 'rooms' } }),
    )
    expect(await untilState('late', 'Failed')).toMatchObject({ reason: 'not-found' })
    const status = await untilState('invalid', 'Failed')
    expect(status).toMatchObject({ reason: 'invalid', message: expect.stringContaining('order.counter') })
    await until('an Event says so', async () => (await k('describe', 'gka', 'invalid')).includes('AllocationFailed'))
    for (const spec of [{}, { buildID: 'x', select: [{ builds: ['x'] }] }]) {
      await expect(create(manifest('refused', spec))).rejects.toThrow('oneOf')
    }
  })

  it('is carried out once if the host dies before it has written the status', async () => {
    const store = await openStore(api, namespace)
    const serve = store.serveAllocations.bind(store)
    let first: string | undefined
    store.serveAllocations = (allocate) =>
      serve(async (requested) => {
        first = (await allocate(requested)).allocation.server.name
        return new Promise(() => {})
      })
    const backend = memoryBackend({ clock: systemClock })
    const dying = await createFleet({ backend, store, logger: silentLogger })
    onTestFinished(() => store.close())
    await build('fatal', 3)
    await create(manifest('survivor', { buildID: 'id-of-fatal', sessionID: 'finals' }))
    await until('it is allocated', () => first !== undefined)
    expect(await statusOf('survivor')).not.toMatchObject({ state: 'Allocated' })
    // The backend goes on, as pods do.
    backend.close = async () => {}
    await dying.close()
    await store.close()
    await openFleet(api, namespace, { backend, logger: false })
    expect(await untilState('survivor', 'Allocated')).toMatchObject({ gameServer: first, sessionID: 'finals' })
    const active = tableOf(await k('get', 'gs', '-l', `${defaultApiGroup}/build=fatal`))
    expect(active.filter((row) => row['STATE'] === 'Active')).toHaveLength(1)
  })

  it('gets a server of its own, also if 50 are created at once', async () => {
    const fleet = await openFleet(api, namespace, { logger: false })
    await build('crowd', 50)
    await until('all stand by', () =>
      fleet.stats().builds.some(({ build: { name }, servers }) => name === 'crowd' && servers.standingBy === 50),
    )
    const names = Array.from({ length: 50 }, (_, i) => `crowd-${i}`)
    await create(...names.map((name) => manifest(name, { buildID: 'id-of-crowd' })))
    const servers = await until('all are allocated', async () => {
      const listed: { items: readonly { metadata: { name: string }; status?: Record<string, unknown> }[] } = JSON.parse(
        await k('get', 'gka', '-o', 'json'),
      )
      const own = listed.items.filter(({ metadata }) => metadata.name.startsWith('crowd-'))
      const done = own.filter(({ status }) => status?.['state'] === 'Allocated')
      return done.length === 50 && done.map(({ status }) => status?.['gameServer'])
    })
    expect(new Set(servers).size).toBe(50)
  })

  it('no longer waits once it is deleted, and a match goes on without it', async () => {
    const events: FleetEvent[] = []
    const fleet = await openFleet(api, namespace, { logger: false })
    fleet.on('*', (event) => events.push(event))
    await build('few', 1)
    await create(manifest('plays', { buildID: 'id-of-few' }))
    const { gameServer } = await untilState('plays', 'Allocated')
    await create(manifest('leaves', { buildID: 'id-of-few', sessionID: 'left', waitSeconds: 600 }))
    await untilState('leaves', 'Waiting')
    await k('delete', 'gka', 'leaves', 'plays')
    await until('nobody waits', () => fleet.stats().builds.every(({ waiting }) => waiting === 0))
    expect(await fleet.servers.get({ namespace, name: String(gameServer) })).toMatchObject({
      status: { state: 'Active' },
    })
    expect(events.filter(({ type }) => type === 'ServerEnding')).toEqual([])
  })

  it('is removed some time after it has finished', async () => {
    await openFleet(api, namespace, { logger: false })
    await create(manifest('brief', { buildID: 'unknown', waitSeconds: 0, ttlSecondsAfterFinished: 0 }))
    await until('it is removed', async () => !(await k('get', 'gka', '-o', 'name')).includes('brief'))
  })

  it('does not change with its spec, which an Event says', async () => {
    const fleet = await openFleet(api, namespace, { logger: false })
    await build('castle', 2)
    await create(manifest('fixed', { buildID: 'id-of-castle' }))
    const before = await untilState('fixed', 'Allocated')
    await k('patch', 'gka', 'fixed', '--type=merge', '-p', '{"spec":{"sessionID":"another"}}')
    await until('an Event says so', async () => (await k('describe', 'gka', 'fixed')).includes('SpecIgnored'))
    expect(await statusOf('fixed')).toEqual(before)
    await expect(fleet.sessions.get('another')).rejects.toThrow('another')
  })
})
