/** Reads that take longer than an entry stays in the journal show its session. */
import { expect, it } from 'vitest'
import { ClusterHost, withSession } from '../../support/cluster-host.js'
import { JournalCluster } from '../../support/journal-cluster.js'

/** A leader with a session in its journal alone. */
async function scene() {
  const cluster = new JournalCluster()
  const host = new ClusterHost(cluster, { term: 1 })
  await cluster.during(host.servers.list())
  const { record, revision } = await cluster.during(host.add('a'))
  const active = withSession(record, 'match')
  const at = await cluster.during(host.servers.update(active, revision))
  expect(cluster.shown('a')).toBeUndefined()
  return { cluster, host, active, at }
}

it('a new leader lists an entry whose status is written and which leaves the journal while the list is being read', async () => {
  const { cluster, host } = await scene()
  host.kill()
  const next = new ClusterHost(cluster, { term: 1 })
  next.listMs = 5_000
  const listing = next.servers.list()
  await cluster.clock.advance(3_000)
  expect(cluster.shown('a')).toBe('match')
  expect(cluster.journaled()).toEqual([])
  const [found] = await cluster.during(listing)
  expect(found?.record.sessions[0]?.id).toBe('match')
  if (!found) return
  // What was listed can be written, once it has been read again if it has changed.
  await cluster.during(next.servers.update({ ...found.record, node: 'node-2' }, found.revision))
})

it.each(['status written', 'record written'])(
  'a read that began while the entry was pending shows it: %s',
  async (how) => {
    const { cluster, host, active, at } = await scene()
    host.answerMs = 1_000
    const reading = host.servers.get(active)
    await cluster.clock.advance(5)
    host.answerMs = 1
    // The API server has answered with the old status, and the answer is on its way.
    if (how === 'record written') {
      await cluster.clock.advance(10)
      await cluster.during(host.servers.update({ ...active, node: 'node-2' }, at))
    }
    await cluster.clock.advance(700)
    expect((await cluster.during(reading))?.record.sessions[0]?.id).toBe('match')
  },
)
