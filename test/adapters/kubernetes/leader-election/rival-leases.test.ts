/** Hosts with different namespaces have different Leases: none leads beside another whose namespaces overlap. */
import { kubernetesBackend } from 'gamekeeper/kubernetes'
import { describe, expect, it, onTestFinished } from 'vitest'
import { until } from '../../../e2e/until.js'
import { configFor, fakeApiServer, say, statusOf } from '../support/fake-api-server.js'

const leaseMs = 2_000
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
  const server = await fakeApiServer((request, response, { pathname }) => {
    let text = ''
    request.on('data', (chunk: Buffer) => (text += chunk.toString()))
    request.on('end', () => {
      const [, name] = /\/leases(?:\/(.+))?$/.exec(pathname) ?? []
      const isList = request.method === 'GET' && name === undefined
      if (isList && pathname.endsWith('/leases') && !rights.list) return say(response, 403, statusOf(403, 'Forbidden'))
      const items = pathname.endsWith('/leases') ? [...leases.values()] : []
      if (isList) return say(response, 200, { metadata: {}, items })
      const known = leases.get(name ?? '')
      if (request.method === 'GET') {
        return known ? say(response, 200, known) : say(response, 404, statusOf(404, 'NotFound', name))
      }
      const lease = JSON.parse(text) as Lease
      const before = leases.get(lease.metadata.name)
      const isFree = before?.metadata.resourceVersion === lease.metadata.resourceVersion
      if (!isFree) return say(response, 409, statusOf(409, 'Conflict', name))
      say(response, 200, put(lease))
    })
  })

  const leading = new Set<string>()
  const most = { leading: 0 }
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
    const told = { leads: false, leader: undefined as string | undefined, hasHeard: false }
    const hear = (leads: boolean, leader?: string) => {
      Object.assign(told, { leads, leader, hasHeard: true })
      if (leads) leading.add(identity)
      else leading.delete(identity)
      most.leading = Math.max(most.leading, leading.size)
    }
    const resign = backend.defaultElector?.run({ elected: () => hear(true), lost: (leader) => hear(false, leader) })
    onTestFinished(async () => {
      await resign?.()
      await backend.close()
    })
    const leave = async () => {
      await resign?.()
      leading.delete(identity)
    }
    return Object.assign(told, { warned, leave })
  }
  const lists = () => server.asked.filter((call) => call.endsWith('/leases') && call.startsWith('GET'))
  const writes = () => server.asked.filter((call) => call.startsWith('PUT'))
  return { leases, put, rights, host, most, lists, writes }
}

describe('a host with other namespaces than the leader', () => {
  it.each([
    ['more namespaces', duels, both],
    ['fewer namespaces', both, duels],
    ['all namespaces', duels, undefined],
    ['some instead of all', undefined, duels],
  ])('(%s) does not lead before the leader has resigned, and warns once', async (_, before, after) => {
    const { host, most, writes } = await scene()
    const first = host('first', before)
    await until('the first leads', () => first.leads)
    const second = host('second', after)
    await until('the second is notified', () => second.hasHeard)
    const renewals = writes().length
    await until('several leases have passed', () => writes().length >= renewals + 8)
    expect(most.leading).toBe(1)
    expect(second.leader).toBe('first')
    expect(second.warned).toMatchObject([{ holder: 'first', message: expect.stringContaining('not leading') }])
    await first.leave()
    await until('the second leads', () => second.leads)
    expect(most.leading).toBe(1)
  })

  it('leads at once when the namespaces do not overlap, and annotates its Lease with them', async () => {
    const { leases, host, lists, writes } = await scene()
    const first = host('first', ['duels', 'chess'])
    const second = host('second', ['arcade'])
    await until('both lead', () => first.leads && second.leads)
    const written = [...leases.values()].map(({ metadata }) => metadata.annotations?.[`${group}/namespaces`])
    expect(new Set(written)).toEqual(new Set(['arcade', 'chess,duels']))
    const asked = lists().length
    const renewals = writes().length
    await until('both go on', () => writes().length >= renewals + 4)
    expect(lists()).toHaveLength(asked)
  })

  it('is the only leader when all hosts start at once', async () => {
    const { host, most } = await scene()
    const hosts = [duels, both, undefined].map((namespaces, i) => host(`host-${i}`, namespaces))
    await until('one leads', () => hosts.some(({ leads }) => leads))
    await until('all are notified', () => hosts.every(({ leads, leader }) => leads || leader !== undefined))
    expect(most.leading).toBe(1)
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
    ['covers unknown namespaces', `${group}.01234567`, false],
    ['belongs to another group', `${group}.other`, false],
  ])('knows by its name that a Lease without annotation %s', async (_, name, holdsOff) => {
    const { put, host } = await scene()
    put({ metadata: { name }, spec: { holderIdentity: 'older' } })
    const second = host('second', both)
    await until('it is notified', () => second.hasHeard)
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
