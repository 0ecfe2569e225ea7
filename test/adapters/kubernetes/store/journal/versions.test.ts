/** Hosts of a version without the journal lead between two that have it. */
import { expect, it } from 'vitest'
import { objectAt } from '../../../../../src/rules/validation/pod-template.js'
import { ClusterHost, withSession } from '../../support/cluster-host.js'
import { JournalCluster } from '../../support/journal-cluster.js'

/** Sessions on a and b are in the journal alone, and their leader has been killed. */
async function scene() {
  const cluster = new JournalCluster()
  const host = new ClusterHost(cluster, { term: 1 })
  await cluster.during(host.servers.list())
  for (const name of ['a', 'b']) {
    const { record, revision } = await cluster.during(host.add(name))
    await cluster.during(host.servers.update(withSession(record, `old-${name}`), revision))
  }
  host.kill()
  expect(cluster.journaled()).toEqual(['old-a', 'old-b'])
  return cluster
}

it.each([1, 2])('what it has written is not undone by an entry from before (%i writes)', async (writes) => {
  const cluster = await scene()
  for (let n = 1; n <= writes; n++) {
    const status = objectAt(cluster.server('a'), 'status')
    cluster.writeStatus('a', { ...status, state: 'Active', sessionID: 'answered', initialPlayers: [] })
  }
  const next = new ClusterHost(cluster, { term: 2 })
  const listed = await cluster.during(next.servers.list())
  expect(listed.map(({ record }) => record.sessions[0]?.id)).toEqual(['answered', 'old-b'])
  await cluster.clock.advance(5_000)
  expect([cluster.shown('a'), cluster.shown('b')]).toEqual(['answered', 'old-b'])
  expect(cluster.journaled()).toEqual([])
})

it('a server that it has deleted, and one of the same name, take no entry', async () => {
  const cluster = await scene()
  const old = new ClusterHost(cluster, { term: 2 })
  old.fault = ({ path }) => (path.includes('journal') ? 404 : undefined)
  const listed = await cluster.during(old.servers.list())
  const first = listed.find(({ record }) => record.name === 'a')
  if (!first) throw new Error('no server')
  await cluster.during(old.servers.delete(first.record, first.revision))
  await cluster.during(old.add('a'))
  old.kill()
  const next = new ClusterHost(cluster, { term: 3 })
  await cluster.during(next.servers.list())
  await cluster.clock.advance(5_000)
  expect([cluster.shown('a'), cluster.shown('b')]).toEqual([undefined, 'old-b'])
  expect(cluster.journaled()).toEqual([])
})
