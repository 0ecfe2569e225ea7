/** A GameServer that is edited by hand keeps its identity, and with it its match. */
import { beforeAll, describe, expect, it, vi } from 'vitest'
import { WriteFence } from '../../../../adapters/kubernetes/client/write-fence.js'
import { CustomObjects, fleetResources } from '../../../../adapters/kubernetes/store/custom-collection.js'
import { SpecRepair } from '../../../../adapters/kubernetes/store/server-collection.js'
import { systemClock } from '../../../../src/contracts/clock.js'
import type { FleetEvent } from '../../../../src/contracts/events.js'
import { silentLogger } from '../../../../src/contracts/logger.js'
import { defaultApiGroup } from '../../../../src/rules/model/wire.js'
import { until } from '../../../e2e/until.js'
import { kubectl, kubectlWith, namespaceName } from '../support/cluster.js'
import { describeOnCluster } from '../support/describe-on-cluster.js'
import { apiOf, configFor, fakeApiServer, respond } from '../support/fake-api-server.js'
import { buildManifest, openFleet, tableOf } from '../support/fleets.js'
import { ownNamespaces } from '../support/own-namespace.js'

describe('a spec that was edited', () => {
  const at = (resourceVersion: string, token: string) => ({
    metadata: { namespace: 'games', name: 'arena-1', uid: 'u', resourceVersion },
    spec: { uid: 'x', token },
  })

  async function scene() {
    const [pauses, lines]: [number[], string[]] = [[], []]
    const clock = {
      ...systemClock,
      after: (ms: number, fn: () => void) => (pauses.push(ms), systemClock.after(ms, fn)),
    }
    const fence = new WriteFence(systemClock)
    const server = await fakeApiServer((_, response) => respond(response, 200, at('9', 'genuine')))
    const api = apiOf(configFor(server.url), { clock, fence })
    const place = { api, namespaces: ['games'], throwIfClosed() {} }
    const objects = new CustomObjects(place, fleetResources(defaultApiGroup).servers)
    const logger = { ...silentLogger, warn: (_: object, message: string) => void lines.push(message) }
    const repair = new SpecRepair({ api, objects, logger, isGenuine: ({ token }) => token === 'genuine' })
    return { repair, server, fence, pauses, lines }
  }

  it('is restored, which the log says', async () => {
    const { repair, server, lines } = await scene()
    repair.withOriginalSpec(at('1', 'genuine'))
    expect(repair.withOriginalSpec(at('2', 'forged'))).toMatchObject({ spec: { token: 'genuine' } })
    await until('the log says so', () => lines.length > 0)
    expect([lines, server.requests]).toEqual([
      [expect.stringContaining('was edited')],
      [expect.stringContaining('PATCH')],
    ])
  })

  it('and put right by an operator stays so, although this host knows only the edited one', async () => {
    const { repair, server } = await scene()
    repair.withOriginalSpec(at('1', 'forged'))
    expect(repair.withOriginalSpec(at('2', 'genuine'))).toMatchObject({ spec: { token: 'genuine' } })
    expect(repair.withOriginalSpec(at('3', 'forged'))).toMatchObject({ spec: { token: 'genuine' } })
    await until('it is restored', () => server.requests.length > 0)
  })

  it('is left alone by a host that no longer leads, until it leads again', async () => {
    const { repair, server, fence, pauses } = await scene()
    repair.withOriginalSpec(at('1', 'genuine'))
    let isRefused = false
    fence.open(fence.timePoint(), -1, () => (isRefused = true))
    const edited = at('2', 'forged')
    repair.withOriginalSpec(edited)
    await until('its write is refused', () => isRefused)
    fence.open(fence.timePoint(), 600_000, () => {})
    repair.withOriginalSpec(edited)
    await until('it is restored', () => server.requests.length > 0)
    expect(pauses.filter((ms) => ms === 500)).toEqual([])
  })
})

describeOnCluster('a GameServer that is edited by hand', () => {
  vi.setConfig({ testTimeout: 120_000 })
  const { api, make } = ownNamespaces()
  const namespace = namespaceName()
  const k = (...args: readonly string[]) => kubectl('-n', namespace, ...args)
  beforeAll(() => make(namespace))

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
