/** Two hosts that both believe to lead, as when somebody deletes the Lease: the earlier one sees what the later one writes. */
import { expect, it } from 'vitest'
import { ClusterHost, withSession } from '../../support/cluster-host.js'
import { JournalCluster } from '../../support/journal-cluster.js'

/** Server a is from the earlier leader; b is from the later one, which has journaled a session on it that no status shows yet. */
async function scene() {
  const cluster = new JournalCluster()
  const earlier = new ClusterHost(cluster, { term: 1 })
  await cluster.during(earlier.servers.list())
  await cluster.during(earlier.add('a'))
  const later = new ClusterHost(cluster, { term: 2 })
  await cluster.during(later.servers.list())
  const { record, revision } = await cluster.during(later.add('b'))
  const seen = earlier.see(cluster.server('b'))
  if (!seen) throw new Error('the watch has reported nothing')
  await cluster.during(later.servers.update(withSession(record, 'answered'), revision))
  expect(cluster.journaled()).toEqual(['answered'])
  return { cluster, earlier, later, seen }
}

it.each(['allocation', 'other update', 'deletion'])(
  'the earlier one cannot overwrite a session in the journal of the later one: %s',
  async (what) => {
    const { cluster, earlier, later, seen } = await scene()
    const { servers } = earlier
    const { record, revision } = seen
    const written: Promise<unknown> =
      what === 'deletion'
        ? servers.delete(record, revision)
        : servers.update(what === 'allocation' ? withSession(record, 'second') : { ...record, node: 'x' }, revision)
    await expect(cluster.during(written)).rejects.toMatchObject({ code: 'not-leader' })
    await cluster.clock.advance(5_000)
    expect(cluster.shown('b')).toBe('answered')
    expect((await cluster.during(later.servers.get(record)))?.record.sessions[0]?.id).toBe('answered')
  },
)

it('a new leader reads the journal once more for each earlier leader whose servers it writes', async () => {
  const { cluster, earlier, later } = await scene()
  earlier.kill()
  later.kill()
  const next = new ClusterHost(cluster, { term: 3 })
  const listed = await cluster.during(next.servers.list())
  let reads = 0
  next.fault = ({ method, path }) => {
    if (method === 'GET' && path.includes('journal')) reads++
    return undefined
  }
  for (const { record, revision } of listed) {
    const at = await cluster.during(next.servers.update({ ...record, node: 'x' }, revision))
    await cluster.during(next.servers.update({ ...record, node: 'y' }, at))
  }
  expect(reads).toBe(1)
})

/** The earlier one notices that the journal is not its own any more, and then lists all servers again. */
async function takeBack(cluster: JournalCluster, { servers }: ClusterHost): Promise<void> {
  const found = await cluster.during(servers.get({ namespace: 'games', name: 'a' }))
  if (!found) throw new Error('the server is gone')
  await cluster.during(servers.update(withSession(found.record, 'noticed'), found.revision))
  expect(cluster.shown('a')).toBe('noticed')
  await cluster.during(servers.list())
}

it('once the earlier one has taken the journal back, the later one cannot overwrite what it journals', async () => {
  const { cluster, earlier, later } = await scene()
  await takeBack(cluster, earlier)
  const { record, revision } = await cluster.during(earlier.add('c'))
  const seen = later.see(cluster.server('c'))
  if (!seen) throw new Error('the watch has reported nothing')
  await cluster.during(earlier.servers.update(withSession(record, 'first'), revision))
  expect(cluster.journaled()).toContain('first')
  const second = cluster.during(later.servers.update(withSession(seen.record, 'second'), seen.revision))
  await expect(second).rejects.toMatchObject({ code: 'not-leader' })
  await cluster.clock.advance(5_000)
  expect(cluster.shown('b')).toBe('answered')
  expect(cluster.shown('c')).toBe('first')
})

it('the earlier one does not journal what it had written before the later one took over', async () => {
  const { cluster, earlier } = await scene()
  const { record, revision } = await cluster.during(earlier.add('c'))
  await takeBack(cluster, earlier)
  await cluster.during(earlier.servers.update(withSession(record, 'direct'), revision))
  expect(cluster.shown('c')).toBe('direct')
})

it('the earlier one cannot overwrite a session in the journal of the third one, which has followed the later one', async () => {
  const { cluster, earlier, later, seen } = await scene()
  later.kill()
  const third = new ClusterHost(cluster, { term: 3 })
  await cluster.during(third.servers.list())
  expect(cluster.shown('b')).toBeUndefined()
  const second = cluster.during(earlier.servers.update(withSession(seen.record, 'second'), seen.revision))
  await expect(second).rejects.toMatchObject({ code: 'not-leader' })
  await cluster.clock.advance(5_000)
  expect(cluster.shown('b')).toBe('answered')
})

it('a leader whose journal somebody has given another owner takes it back, and then writes servers of earlier leaders', async () => {
  const { cluster, earlier, later } = await scene()
  earlier.kill()
  later.kill()
  const last = new ClusterHost(cluster, { term: 3 })
  const listed = await cluster.during(last.servers.list())
  cluster.editJournal({ owner: 'somebody' })
  const found = listed.find(({ record }) => record.name === 'a')
  if (!found) throw new Error('the server is gone')
  const write = () => cluster.during(last.servers.update({ ...found.record, node: 'x' }, found.revision))
  await expect(write()).rejects.toMatchObject({ code: 'not-leader' })
  await expect(write()).resolves.toBeDefined()
})

it('a host that fails to take the journal back adds nothing to it', async () => {
  const { cluster, earlier, later, seen } = await scene()
  const own = await cluster.during(earlier.add('c'))
  await cluster.during(later.servers.list())
  const found = await cluster.during(later.servers.get(own.record))
  if (!found) throw new Error('the server is gone')
  await cluster.during(later.servers.update(withSession(found.record, 'first'), found.revision))
  later.kill()
  const third = new ClusterHost(cluster, { term: 3 })
  await cluster.during(third.servers.list())
  earlier.fault = ({ method, path }) => (method === 'PUT' && path.includes('journal') ? 500 : undefined)
  await expect(cluster.during(earlier.servers.update({ ...seen.record, node: 'x' }, seen.revision))).rejects.toThrow()
  earlier.fault = () => undefined
  const second = cluster.during(earlier.servers.update(withSession(own.record, 'second'), own.revision))
  await expect(second).rejects.toMatchObject({ code: 'conflict' })
  expect(cluster.journaled()).not.toContain('second')
  expect(cluster.shown('c')).toBe('first')
})

it('what a host writes before it has taken the journal over does not make it an earlier leader', async () => {
  const { cluster, later } = await scene()
  const third = new ClusterHost(cluster)
  const listed = await cluster.during(third.servers.list())
  const a = listed.find(({ record }) => record.name === 'a')
  if (!a) throw new Error('the server is gone')
  third.term = 3
  third.fault = ({ method, path }) => (method === 'PUT' && path.includes('journal') ? 500 : undefined)
  await expect(cluster.during(third.servers.list())).rejects.toThrow()
  const early = await cluster.during(third.servers.update({ ...a.record, node: 'early' }, a.revision))
  const seen = later.see(cluster.server('a'))
  if (!seen) throw new Error('the watch has reported nothing')
  await cluster.during(later.servers.update({ ...seen.record, node: 'between' }, early))
  third.fault = () => undefined
  await cluster.during(third.servers.list())
  const own = await cluster.during(third.servers.get(a.record))
  if (!own) throw new Error('the server is gone')
  const at = await cluster.during(third.servers.update({ ...own.record, node: 'late' }, own.revision))
  const last = later.see(cluster.server('a'))
  if (!last) throw new Error('the watch has reported nothing')
  await cluster.during(third.servers.update(withSession(own.record, 'first'), at))
  expect(cluster.journaled()).toContain('first')
  const second = cluster.during(later.servers.update(withSession(last.record, 'second'), last.revision))
  await expect(second).rejects.toMatchObject({ code: 'not-leader' })
})
