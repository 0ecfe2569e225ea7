/** Writes of the journal that fail: what is known of them, who waits for them, and who is told what. */
import { expect, it } from 'vitest'
import type { ApiCall } from '../../../../../adapters/kubernetes/client/api.js'
import { ClusterHost, type Fault, withSession } from '../../support/cluster-host.js'
import { JournalCluster } from '../../support/journal-cluster.js'

/** A leader with servers a, b and c, which journals even a single allocation. */
async function scene() {
  const cluster = new JournalCluster()
  const host = new ClusterHost(cluster, { term: 1 })
  await cluster.during(host.servers.list())
  const found = new Map<string, Awaited<ReturnType<ClusterHost['add']>>>()
  for (const name of ['a', 'b', 'c']) found.set(name, await cluster.during(host.add(name)))
  const allocate = (name: string, session: string, by = host) => {
    const server = found.get(name)
    if (!server) throw new Error(`no server ${name}`)
    return by.servers.update(withSession(server.record, session), server.revision)
  }
  return { cluster, host, allocate, ref: (name: string) => ({ namespace: 'games', name }) }
}

/** The next calls of this kind fail like this. */
function failing(host: ClusterHost, kind: 'read' | 'write', faults: Fault[]): void {
  host.fault = (call) =>
    isOfJournal(call) && (call.method === 'GET') === (kind === 'read') ? faults.shift() : undefined
}
const isOfJournal = ({ path }: ApiCall) => path.includes('journal')

it('flush waits for an append in flight', async () => {
  const { cluster, host, allocate } = await scene()
  host.latencyMs = 300
  const allocated = allocate('a', 'match')
  await cluster.clock.advance(100)
  const flushed = host.servers.flush()
  await cluster.during(flushed)
  await allocated
  expect(cluster.shown('a')).toBe('match')
  expect(cluster.journaled()).toEqual([])
})

it.each(['lost', 'late', 'unreached'] as const)(
  'an owner that somebody edits while an outcome is unknown (%s) does not keep anybody waiting',
  async (fault) => {
    const { cluster, host, allocate, ref } = await scene()
    const faults: Fault[] = [fault, 'unreached']
    host.fault = (call) => (isOfJournal(call) ? faults.shift() : undefined)
    await expect(cluster.during(allocate('a', 'match'))).rejects.toMatchObject({ code: 'unavailable' })
    cluster.editJournal({ owner: 'somebody' })
    const found = await cluster.during(host.servers.get(ref('a')))
    expect(found?.record.sessions[0]?.id).toBe(fault === 'lost' ? 'match' : undefined)
    await cluster.clock.advance(5_000)
    expect(cluster.shown('a')).toBe(fault === 'lost' ? 'match' : undefined)
    await cluster.during(allocate('b', 'other'))
    expect(cluster.shown('b')).toBe('other')
  },
)

it.each([400, 401, 403, 404, 413, 422, 429])(
  'a journal that is refused (%i) leaves nothing unknown',
  async (status) => {
    const { cluster, host, allocate } = await scene()
    failing(host, 'write', [status, status, status])
    await cluster.during(allocate('a', 'match'))
    expect(cluster.shown('a')).toBe('match')
    host.fault = () => undefined
    await cluster.clock.advance(20_000)
    await cluster.during(allocate('b', 'journaled'))
    expect(cluster.journaled()).toEqual(['journaled'])
  },
)

it('a leader that may not use its journal any more keeps nobody waiting', async () => {
  const { cluster, host, allocate } = await scene()
  host.fault = (call) => (isOfJournal(call) ? 403 : undefined)
  const begun = cluster.clock.elapsed()
  await cluster.during(Promise.all([allocate('a', 'match'), allocate('b', 'other')]))
  expect(cluster.clock.elapsed() - begun).toBeLessThan(100)
  expect([cluster.shown('a'), cluster.shown('b')]).toEqual(['match', 'other'])
})

it.each([500, 503, 408])('a journal that fails (%i) is read again before anybody is told', async (status) => {
  const { cluster, host, allocate, ref } = await scene()
  failing(host, 'write', [status])
  await cluster.during(allocate('a', 'match'))
  expect((await cluster.during(host.servers.get(ref('a'))))?.record.sessions[0]?.id).toBe('match')
  await cluster.clock.advance(5_000)
  expect(cluster.shown('a')).toBe('match')
})

it('a leader that is deposed with an unknown outcome is told by the journal of the next one', async () => {
  const { cluster, host, allocate, ref } = await scene()
  const faults: Fault[] = ['late', 'unreached']
  host.fault = (call) => (isOfJournal(call) ? faults.shift() : undefined)
  await expect(cluster.during(allocate('a', 'match'))).rejects.toMatchObject({ code: 'unavailable' })
  host.term = undefined
  const next = new ClusterHost(cluster, { term: 2 })
  await cluster.during(next.servers.list())
  const [shown, told] = [
    await cluster.during(next.servers.get(ref('a'))),
    await cluster.during(host.servers.get(ref('a'))),
  ]
  expect(told?.record.sessions[0]).toEqual(shown?.record.sessions[0])
})

it('of two entries for one server, which an edited journal has, the later one is carried out', async () => {
  const { cluster, host, allocate, ref } = await scene()
  const linesNow = () => {
    const lines = cluster.journal?.['entries']
    return Array.isArray(lines) ? lines : []
  }
  await cluster.during(allocate('a', 'first'))
  const old = linesNow()
  await cluster.clock.advance(2_000)
  const found = await cluster.during(host.servers.get(ref('a')))
  if (!found) throw new Error('the server is gone')
  const idle = { ...found.record, sessions: [] }
  const standing = { ...idle, state: 'StandingBy' as const }
  const revision = await cluster.during(host.servers.update(standing, found.revision))
  await cluster.during(host.servers.update(withSession(standing, 'second'), revision))
  host.kill()
  cluster.editJournal({ entries: [...old, ...linesNow()] })
  const next = new ClusterHost(cluster, { term: 2 })
  const [listed] = await cluster.during(next.servers.list())
  expect(listed?.record.sessions[0]?.id).toBe('second')
  await cluster.clock.advance(5_000)
  expect(cluster.shown('a')).toBe('second')
})
