/** What kubectl edits on a server with an entry arrives in the fleet. */
import { expect, it } from 'vitest'
import type { Server } from '../../../../../src/rules/model/resources.js'
import { ClusterHost, withSession } from '../../support/cluster-host.js'
import { JournalCluster } from '../../support/journal-cluster.js'

/** A leader with a session in its journal alone. */
async function scene() {
  const cluster = new JournalCluster()
  const host = new ClusterHost(cluster, { term: 1 })
  const during = <T>(work: Promise<T>) => cluster.during(work)
  await during(host.servers.list())
  const { record, revision } = await during(host.add('a'))
  const active = withSession(record, 'match')
  const at = await during(host.servers.update(active, revision))
  expect(cluster.journaled()).toEqual(['match'])
  return { cluster, host, active, at, during }
}

/** As the engine does: if the record has changed, reads it and tries again. */
async function writeNode({ host, active, at, during }: Awaited<ReturnType<typeof scene>>): Promise<Server | undefined> {
  const { servers } = host
  try {
    const revision = await during(servers.update({ ...active, node: 'node-2' }, at))
    await during(servers.update({ ...active, node: 'node-3' }, revision))
  } catch {
    const found = await during(servers.get(active))
    if (!found) throw new Error('the server is gone')
    await during(servers.update({ ...found.record, node: 'node-2' }, found.revision))
  }
  return (await during(servers.get(active)))?.record
}

it('a label that is edited under an entry is not lost when the record is written over the entry', async () => {
  const world = await scene()
  expect(world.host.see(world.cluster.label('a', { map: 'dust' }))?.revision).toBe(world.at)
  expect((await writeNode(world))?.data?.labels).toEqual({ map: 'dust' })
})

it('... while its watch event has not arrived yet', async () => {
  const world = await scene()
  world.cluster.label('a', { map: 'dust' })
  expect((await writeNode(world))?.data?.labels).toEqual({ map: 'dust' })
})

it('a label that is edited under an entry is reported by the watch once the status is written', async () => {
  const { cluster, host, at } = await scene()
  const reported = [host.see(cluster.label('a', { map: 'dust' }))]
  await cluster.clock.advance(2_000)
  expect(cluster.shown('a')).toBe('match')
  reported.push(host.see(cluster.server('a')))
  const edited = reported.find((found) => found?.record.data?.labels['map'] === 'dust')
  expect(edited).toBeDefined()
  expect(edited?.revision).not.toBe(at)
})
