/** How long the statuses of servers lag behind the answers, with more callers than connections. */
import { expect, it } from 'vitest'
import { ClusterHost, withSession } from '../../support/cluster-host.js'
import { JournalCluster } from '../../support/journal-cluster.js'

const callers = 64
const servers = 500

it.each([
  ['a quick API server', 4],
  ['a slow API server', 60],
])('a status shows its session within a second of the answer: %s', async (_, latencyMs) => {
  const cluster = new JournalCluster()
  const { clock } = cluster
  const host = new ClusterHost(cluster, { term: 1, minGroup: 2, connections: 8 })
  host.latencyMs = latencyMs
  await cluster.during(host.servers.list())
  const names = Array.from({ length: servers }, (_each, n) => `s-${n}`)
  const added = await cluster.during(Promise.all(names.map((name) => host.add(name))))
  const answeredAt = new Map<string, number>()
  const call = async (): Promise<void> => {
    const next = added.shift()
    if (!next) return
    const { name } = next.record
    await host.servers.update(withSession(next.record, `on-${name}`), next.revision)
    answeredAt.set(name, clock.elapsed())
    return call()
  }
  const calls = Promise.all(Array.from({ length: callers }, call))
  let longest = 0
  let isOver = false
  void calls.then(() => (isOver = true))
  while (!isOver || answeredAt.size > 0) {
    await clock.advance(20)
    for (const [name, at] of answeredAt) {
      longest = Math.max(longest, clock.elapsed() - at)
      if (cluster.shown(name) !== undefined) answeredAt.delete(name)
    }
    if (longest > 10_000) break
  }
  expect(longest).toBeLessThanOrEqual(1_000)
})
