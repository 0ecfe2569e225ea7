/** Allocations whose selectors have as many conditions as they may, over many servers that each have labels of their own. */
import type { Fleet } from 'gamekeeper'
import { serve, type Served } from 'gamekeeper/http'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { memoryBackend } from '../../adapters/memory/index.js'
import { createFleet, systemClock } from '../../src/index.js'
import { call } from './client.js'
import { build, standingBy } from './fleet.js'

const { spec } = build({})
const servers = 500

let fleet: Fleet
let served: Served

beforeEach(async () => {
  const backend = memoryBackend({ clock: systemClock, heartbeatIntervalMs: 0 })
  const limits = { maxCreatesPerReconcile: servers, maxConcurrentCreates: servers, silenceMs: 600_000 }
  fleet = await createFleet({ backend, limits })
  await fleet.builds.create({ metadata: { name: 'arena' }, spec: { ...spec, standingBy: servers, max: servers } })
  await standingBy(fleet, servers)
  const refs = backend.servers().map(({ ref }) => ref)
  await Promise.all(refs.map((ref, i) => fleet.servers.update(ref, { labels: { own: `label-${i}` } })))
  served = await serve({ fleet, allocation: { port: 0 }, management: { port: 0 } })
})
afterEach(async () => {
  await served.close()
  await fleet.close()
})

/** Every condition but the last of each selector is met. */
const selector = (expressions: number) => ({
  builds: [spec.buildID],
  matchExpressions: Array.from({ length: expressions }, (_, i) => {
    const values = Array.from({ length: 32 }, (__, n) => `no-server-has-${i}-${n}`)
    return { key: 'own', operator: i + 1 < expressions ? ('NotIn' as const) : ('In' as const), values }
  }),
})
const sessionID = (n: number) => `00000000-0000-4000-8000-${String(n).padStart(12, '0')}`

it('a batch of them lets the host do other work in between', { timeout: 300_000 }, async () => {
  const select = Array.from({ length: 8 }, () => selector(16))
  const requests = Array.from({ length: 26 }, (_, n) => ({ sessionID: sessionID(n), select }))
  let turns = 0
  let isOver = false
  const turn = () => {
    turns++
    if (!isOver) setImmediate(turn)
  }
  const answer = fleet.allocateMany(requests)
  setImmediate(turn)
  const results = await answer
  isOver = true
  expect(results.every(({ error }) => error?.code === 'none-standing-by')).toBe(true)
  expect(turns).toBeGreaterThan(8)
})

it(
  'one with more conditions than can be checked for all these servers is refused by name',
  { timeout: 300_000 },
  async () => {
    const labels = Object.fromEntries(Array.from({ length: 16 }, (_, i) => [`k${i}`, 'v']))
    const list = Object.fromEntries(Array.from({ length: 16 }, (_, i) => [`list${i}`, { minAvailable: 0 }]))
    const counters = Object.fromEntries(Array.from({ length: 16 }, (_, i) => [`counter${i}`, { minCount: 0 }]))
    const dear = { ...selector(16), matchLabels: labels, lists: list, counters }
    const select = Array.from({ length: 8 }, () => ({ ...dear }))
    const reply = await call('POST', `${served.allocationUrl}/api/v1/allocate`, {
      body: { sessionID: sessionID(1), select },
    })
    expect([reply.status, JSON.parse(reply.text)]).toEqual([
      400,
      expect.objectContaining({
        error: expect.stringMatching(/^select has too many conditions for the number of servers/),
      }),
    ])
    const cheap = [{ builds: [spec.buildID], matchLabels: { own: 'label-7' } }]
    const found = await call('POST', `${served.allocationUrl}/api/v1/allocate`, {
      body: { sessionID: sessionID(1), select: cheap },
    })
    expect(found.status).toBe(200)
  },
)
