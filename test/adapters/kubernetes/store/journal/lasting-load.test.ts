/** More callers than the API server answers, for long: every session costs a write of its status, with the journal and without. */
import { expect, it } from 'vitest'
import { ClusterHost, withSession } from '../../support/cluster-host.js'
import { JournalCluster } from '../../support/journal-cluster.js'

const callers = 200

interface Load {
  readonly connections: number
  readonly latencyMs: number
  readonly servers: number
}

/** Allocations per second. */
async function rate({ connections, latencyMs, servers }: Load, hasJournal: boolean): Promise<number> {
  const cluster = new JournalCluster()
  const host = new ClusterHost(cluster, { term: 1, minGroup: 2, connections })
  // The host may not use a journal.
  if (!hasJournal) host.fault = ({ path }) => (path.includes('journal') ? 403 : undefined)
  await cluster.during(host.servers.list())
  const names = Array.from({ length: servers }, (_, n) => `s-${n}`)
  const waiting = await cluster.during(Promise.all(names.map((name) => host.add(name))))
  host.latencyMs = latencyMs
  const begun = cluster.clock.elapsed()
  const call = async (): Promise<void> => {
    const next = waiting.shift()
    if (!next) return
    await host.servers.update(withSession(next.record, `on-${next.record.name}`), next.revision)
    return call()
  }
  await cluster.during(Promise.all(Array.from({ length: callers }, call)))
  return (servers * 1_000) / (cluster.clock.elapsed() - begun)
}

it.each([
  { connections: 8, latencyMs: 5, servers: 1_500 },
  { connections: 8, latencyMs: 50, servers: 1_000 },
  { connections: 64, latencyMs: 5, servers: 4_000 },
  { connections: 64, latencyMs: 50, servers: 2_000 },
])('$connections connections that take $latencyMs ms carry about as many with the journal', async (load) => {
  expect(await rate(load, true)).toBeGreaterThan(0.85 * (await rate(load, false)))
})
