/** A GameServer that is edited by hand keeps its identity, and with it its match. */
import { afterAll, beforeAll, expect, it, vi } from 'vitest'
import type { FleetEvent } from '../../../../src/contracts/events.js'
import { until } from '../../../e2e/until.js'
import { clusterApi, kubectl, kubectlWith, makeNamespace, namespaceName, removeNamespace } from '../support/cluster.js'
import { installDefinitions } from '../support/definitions.js'
import { describeOnCluster } from '../support/describe-on-cluster.js'
import { buildManifest, openFleet, tableOf } from '../support/fleets.js'

describeOnCluster('a GameServer that is edited by hand', () => {
  vi.setConfig({ testTimeout: 120_000 })
  const api = clusterApi()
  const namespace = namespaceName()
  const k = (...args: readonly string[]) => kubectl('-n', namespace, ...args)
  beforeAll(async () => {
    await installDefinitions()
    await makeNamespace(api, namespace)
  })
  afterAll(async () => {
    await removeNamespace(api, namespace)
    api.close()
  })

  it('gets its spec back, whatever was changed in it, and its match goes on', async () => {
    const fleet = await openFleet(api, namespace)
    const events: FleetEvent[] = []
    fleet.on('*', (event) => events.push(event))
    await kubectlWith(buildManifest(namespace, 'arena', { standingBy: 1, max: 4 }), 'apply', '-f', '-')
    const sessionID = 'a-match'
    const { SessionID } = await until('it is allocated', () => fleet.allocate({ buildID: 'id-of-arena', sessionID }))
    const standing = async () => tableOf(await k('get', 'gs')).filter((row) => row['STATE'] === 'StandingBy')
    await until('another stands by', async () => (await standing()).length === 1)
    const active = (await fleet.servers.list()).find(({ status }) => status.sessionID === SessionID)
    const name = active?.metadata.name ?? ''
    const specNow = () => k('get', 'gs', name, '-o', 'jsonpath={.spec}')
    const before = await specNow()
    const edits = { uid: 'another', buildUid: 'x', build: 'y', token: 'eA==', createdAt: '2001-01-01T00:00:00Z' }
    for (const [field, value] of Object.entries({ ...edits, all: undefined })) {
      const spec = value === undefined ? edits : { [field]: value }
      await k('patch', 'gs', name, '--type=merge', '-p', JSON.stringify({ spec }))
      await until(`${field} is restored`, async () => (await specNow()) === before)
    }
    // The engine still writes to the record.
    await fleet.servers.update({ namespace, name }, { labels: { seen: 'yes' } })
    const again = await fleet.allocate({ buildID: 'id-of-arena', sessionID })
    expect(again.server).toEqual({ namespace, name })
    const rows = tableOf(await k('get', 'gs'))
    const states = rows.map((row) => row['STATE'] ?? '')
    expect(states.toSorted()).toEqual(['Active', 'StandingBy'])
    expect(events.filter(({ type }) => type === 'ServerEnding' || type === 'ServerRemoved')).toEqual([])
  })
})
