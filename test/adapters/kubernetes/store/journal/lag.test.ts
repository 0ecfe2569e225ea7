/** How long the statuses of servers lag behind the answers, with more callers than connections. */
import { expect, it } from 'vitest'
import { seededRandom } from '../../../../../src/testing/virtual-clock.js'
import { ClusterHost, withSession } from '../../support/cluster-host.js'
import { JournalCluster } from '../../support/journal-cluster.js'

interface Scene {
  readonly connections: number
  /** How long a call takes that is sent now, in ms. */
  readonly latencyMs: (now: number) => number
  readonly servers: number
}

async function lagOf({ connections, latencyMs, servers }: Scene) {
  const cluster = new JournalCluster()
  const { clock } = cluster
  const host = new ClusterHost(cluster, { term: 1, minGroup: 2, connections })
  await cluster.during(host.servers.list())
  const names = Array.from({ length: servers }, (_each, n) => `s-${n}`)
  const added = await cluster.during(Promise.all(names.map((name) => host.add(name))))
  host.fault = () => void (host.latencyMs = latencyMs(clock.elapsed()))
  const answeredAt = new Map<string, number>()
  return {
    clock,

    /** Allocates. Returns how long a status has lagged at most, once all have been answered and, unless it goes on, shown. */
    async burst(calls: number, callers: number, goesOn = false) {
      const left = added.splice(0, calls)
      let inJournal = 0
      const call = async (): Promise<void> => {
        const next = left.shift()
        if (!next) return
        const { name } = next.record
        const revision = await host.servers.update(withSession(next.record, `on-${name}`), next.revision)
        if (revision.includes('.')) inJournal++
        answeredAt.set(name, clock.elapsed())
        return call()
      }
      let isOver = false
      void Promise.all(Array.from({ length: callers }, call)).then(() => (isOver = true))
      let longestMs = 0
      while ((!isOver || (answeredAt.size > 0 && !goesOn)) && longestMs < 10_000) {
        await clock.advance(20)
        for (const [name, at] of answeredAt) {
          longestMs = Math.max(longestMs, clock.elapsed() - at)
          if (cluster.shown(name) !== undefined) answeredAt.delete(name)
        }
      }
      return { longestMs, inJournal }
    },
  }
}

/** So many calls a second, one after the other. Each takes at least 4 ms. */
function atMost(perSecond: number) {
  let freeAt = 0
  return (now: number) => {
    freeAt = Math.max(now, freeAt) + 1_000 / perSecond
    return Math.max(4, freeAt - now)
  }
}

it.each([
  { connections: 2, ms: 20 },
  { connections: 5, ms: 20 },
  { connections: 5, ms: 60 },
  { connections: 8, ms: 4 },
  { connections: 8, ms: 60 },
  { connections: 64, ms: 4 },
  { connections: 64, ms: 60 },
])('a status shows its session within a second of the answer: $connections connections, $ms ms', async (load) => {
  const { connections, ms } = load
  const { burst } = await lagOf({ connections, latencyMs: () => ms, servers: 500 })
  expect((await burst(500, 64)).longestMs).toBeLessThanOrEqual(1_000)
})

it('a slow API server stays known as slow while load lasts', async () => {
  const { burst } = await lagOf({ connections: 4, latencyMs: () => 250, servers: 300 })
  expect((await burst(300, 64)).longestMs).toBeLessThanOrEqual(1_500)
})

it('statuses that are being written when load begins do not wait until it ends', async () => {
  const random = seededRandom(4)
  const { clock, burst } = await lagOf({ connections: 64, latencyMs: () => 10 + 20 * random(), servers: 6_400 })
  await burst(400, 128, true)
  await clock.advance(100)
  const { longestMs, inJournal } = await burst(6_000, 200)
  expect(longestMs).toBeLessThanOrEqual(1_000)
  expect(inJournal).toBeGreaterThan(500)
})

it('after two bursts, it is known how many statuses an API server writes that is slow only under load', async () => {
  const { clock, burst } = await lagOf({ connections: 64, latencyMs: atMost(200), servers: 1_200 })
  for (let before = 0; before < 2; before++) {
    await burst(400, 128)
    await clock.advance(10_000)
  }
  expect((await burst(400, 128)).longestMs).toBeLessThanOrEqual(1_000)
})

it('an API server that is held up when a burst begins does not keep it out of the journal', async () => {
  let heldUpUntil = 0
  const latencyMs = (now: number) => Math.max(10, heldUpUntil - now)
  const { clock, burst } = await lagOf({ connections: 64, latencyMs, servers: 420 })
  await burst(20, 1)
  heldUpUntil = clock.elapsed() + 200
  expect((await burst(400, 128)).inJournal).toBeGreaterThan(300)
})
