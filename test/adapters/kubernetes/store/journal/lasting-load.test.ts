/** More callers than the API server answers, for long: every session costs a write of its status, with the journal and without. */
import { expect, it } from 'vitest'
import type { Versioned } from '../../../../../src/contracts/store.js'
import type { Server } from '../../../../../src/rules/model/resources.js'
import { seededRandom } from '../../../../../src/testing/virtual-clock.js'
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

type Begin = (host: ClusterHost, cluster: JournalCluster, allocated: Versioned<Server>) => () => boolean

/**
 * Many callers, whose calls take unequally long, so that some always wait. Once all connections are in use, `begin` is called with a server whose
 * session is answered from the journal. Returns how many ms later its condition held.
 */
async function underLoad(begin: Begin): Promise<number> {
  const cluster = new JournalCluster()
  const { clock } = cluster
  const host = new ClusterHost(cluster, { term: 1, minGroup: 2, connections: 8 })
  await cluster.during(host.servers.list())
  const names = Array.from({ length: 2_000 }, (_, n) => `s-${n}`)
  const waiting = await cluster.during(Promise.all(names.map((name) => host.add(name))))
  const random = seededRandom(1)
  host.fault = () => void (host.latencyMs = 10 + 20 * random())
  let answered = 0
  let begun: number | undefined
  let isOver = () => false
  const call = async (): Promise<void> => {
    const next = isOver() ? undefined : waiting.shift()
    if (!next) return
    const record = withSession(next.record, `on-${next.record.name}`)
    const revision = await host.servers.update(record, next.revision)
    if (begun === undefined && ++answered > 20 && cluster.shown(record.name) === undefined) {
      begun = clock.elapsed()
      isOver = begin(host, cluster, { record, revision })
    }
    return call()
  }
  await cluster.during(Promise.all(Array.from({ length: callers }, call)))
  return clock.elapsed() - (begun ?? -Infinity)
}

it('the next write of a server whose session is in the journal does not wait until the load ends', async () => {
  const tookMs = await underLoad((host, _, { record, revision }) => {
    let isWritten = false
    void host.servers.update({ ...record, node: 'node-2' }, revision).then(() => (isWritten = true))
    return () => isWritten
  })
  expect(tookMs).toBeLessThan(1_500)
})

it('the status of a server whose labels were edited does not wait until the load ends', async () => {
  const tookMs = await underLoad((_, cluster, { record: { name } }) => {
    cluster.label(name, { tier: 'gold' })
    return () => cluster.shown(name) !== undefined
  })
  expect(tookMs).toBeLessThan(1_500)
})
