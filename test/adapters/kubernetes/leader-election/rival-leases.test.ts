/** Hosts with different namespaces use different Leases, but two hosts whose namespaces overlap never lead at the same time. */
import { kubernetesBackend } from 'gamekeeper/kubernetes'
import { describe, expect, it, onTestFinished } from 'vitest'
import { until } from '../../../e2e/until.js'
import { configFor, fakeApiServer, respond, statusOf } from '../support/fake-api-server.js'

const leaseMs = 6_000
const group = 'mps.gamekeeper.com'
const duels = ['duels']
const both = ['arcade', 'duels']

interface Lease {
  readonly metadata: {
    readonly name: string
    readonly resourceVersion?: string
    readonly annotations?: Readonly<Record<string, string>>
  }
  readonly spec: { readonly holderIdentity?: string }
}

/** An API server with Leases only. */
async function scene() {
  const leases = new Map<string, Lease>()
  const rights = { list: true }
  let revision = 0
  const put = ({ metadata, spec }: Lease) => {
    const lease = { metadata: { ...metadata, resourceVersion: String(++revision) }, spec }
    leases.set(metadata.name, lease)
    return lease
  }
  const server = await fakeApiServer((request, response, { pathname, searchParams }) => {
    // The watch on the own Lease. It stays silent, so these hosts find out by polling.
    if (searchParams.has('watch')) return response.writeHead(200).flushHeaders()
    if (searchParams.has('fieldSelector'))
      return respond(response, 200, { metadata: { resourceVersion: '1' }, items: [] })
    let text = ''
    request.on('data', (chunk: Buffer) => (text += chunk.toString()))
    request.on('end', () => {
      const [, name] = /\/leases(?:\/(.+))?$/.exec(pathname) ?? []
      const isList = request.method === 'GET' && name === undefined
      if (isList && pathname.endsWith('/leases') && !rights.list)
        return respond(response, 403, statusOf(403, 'Forbidden'))
      const items = pathname.endsWith('/leases') ? [...leases.values()] : []
      if (isList) return respond(response, 200, { metadata: {}, items })
      const existing = leases.get(name ?? '')
      if (request.method === 'GET') {
        return existing ? respond(response, 200, existing) : respond(response, 404, statusOf(404, 'NotFound', name))
      }
      const lease = JSON.parse(text) as Lease
      const before = leases.get(lease.metadata.name)
      const isFree = before?.metadata.resourceVersion === lease.metadata.resourceVersion
      if (!isFree) return respond(response, 409, statusOf(409, 'Conflict', name))
      respond(response, 200, searchParams.has('dryRun') ? lease : put(lease))
    })
  })

  const leading = new Set<string>()
  const peak = { leading: 0 }
  function host(identity: string, namespaces: readonly string[] | undefined) {
    const warned: object[] = []
    const warn = (fields: object, message: string) => void warned.push({ ...fields, message })
    const backend = kubernetesBackend({
      ...{
        kubeConfig: configFor(server.url),
        systemNamespace: 'games',
        identity,
        leaseMs,
        ...(namespaces && { namespaces }),
      },
      logger: { debug() {}, info() {}, warn, error: warn },
    })
    const leadership = { leads: false, leader: undefined as string | undefined, isNotified: false }
    const notify = (leads: boolean, leader?: string) => {
      Object.assign(leadership, { leads, leader, isNotified: true })
      if (leads) leading.add(identity)
      else leading.delete(identity)
      peak.leading = Math.max(peak.leading, leading.size)
    }
    const resign = backend.defaultElector?.run({ elected: () => notify(true), lost: (leader) => notify(false, leader) })
    onTestFinished(async () => {
      await resign?.()
      await backend.close()
    })
    const leave = async () => {
      await resign?.()
      leading.delete(identity)
    }
    return Object.assign(leadership, { warned, leave })
  }
  const lists = () => server.requests.filter((call) => call.endsWith('/leases') && call.startsWith('GET'))
  const writes = () => server.requests.filter((call) => call.startsWith('PUT'))
  return { leases, put, rights, host, peak, lists, writes }
}

describe('a host whose namespaces differ from those of the leader', () => {
  it.each([
    ['more namespaces', duels, both],
    ['fewer namespaces', both, duels],
    ['all namespaces', duels, undefined],
    ['some instead of all', undefined, duels],
  ])('does not lead until the leader resigns, and warns once: %s', async (_, before, after) => {
    const { host, peak, writes } = await scene()
    const first = host('first', before)
    await until('the first leads', () => first.leads)
    const second = host('second', after)
    await until('the second is notified', () => second.isNotified)
    const renewals = writes().length
    await until('several leases have passed', () => writes().length >= renewals + 8)
    expect(peak.leading).toBe(1)
    expect(second.leader).toBe('first')
    expect(second.warned).toMatchObject([{ holder: 'first', message: expect.stringContaining('not leading') }])
    await first.leave()
    await until('the second leads', () => second.leads)
    expect(peak.leading).toBe(1)
  })

  it('leads at once when the namespaces do not overlap, and lists its namespaces in an annotation on its Lease', async () => {
    const { leases, host, lists, writes } = await scene()
    const first = host('first', ['duels', 'chess'])
    const second = host('second', ['arcade'])
    await until('both lead', () => first.leads && second.leads)
    const written = [...leases.values()].map(({ metadata }) => metadata.annotations?.[`${group}/namespaces`])
    expect(new Set(written)).toEqual(new Set(['arcade', 'chess,duels']))
    const before = lists().length
    const renewals = writes().length
    await until('both renew their leases', () => writes().length >= renewals + 4)
    expect(lists()).toHaveLength(before)
  })

  it('is the only leader when all hosts start at once', async () => {
    const { host, peak } = await scene()
    const hosts = [duels, both, undefined].map((namespaces, i) => host(`host-${i}`, namespaces))
    await until('one leads', () => hosts.some(({ leads }) => leads))
    await until('all are notified', () => hosts.every(({ leads, leader }) => leads || leader !== undefined))
    expect(peak.leading).toBe(1)
  })

  it('takes over from a killed host after one lease duration', async () => {
    const { put, host } = await scene()
    const annotations = { [`${group}/namespaces`]: 'duels' }
    const spec = { holderIdentity: 'killed', leaseDurationSeconds: 2 }
    put({ metadata: { name: `${group}.01234567`, annotations }, spec })
    const begun = performance.now()
    const second = host('second', both)
    await until('it leads', () => second.leads)
    expect(performance.now() - begun).toBeGreaterThan(leaseMs * 0.95)
  })

  it.each([
    ['covers all namespaces', group, true],
    ['may cover all namespaces', `${group}.01234567`, true],
    ['belongs to another group', `${group}.other`, false],
  ])('knows from the name of a Lease without annotation that it %s', async (_, name, holdsOff) => {
    const { put, host } = await scene()
    put({ metadata: { name }, spec: { holderIdentity: 'older' } })
    const second = host('second', both)
    await until('it is notified', () => second.isNotified)
    expect(second.leader).toBe(holdsOff ? 'older' : undefined)
  })

  it('leads without permission to list leases, and warns once', async () => {
    const { rights, host } = await scene()
    rights.list = false
    const first = host('first', duels)
    await until('it leads', () => first.leads)
    expect(first.warned).toMatchObject([
      { namespace: 'games', message: expect.stringContaining('not allowed to list leases') },
    ])
  })
})
