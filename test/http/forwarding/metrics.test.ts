/** What a host forwards is measured. */
import { fleetMetrics } from 'gamekeeper/metrics'
import { expect, it } from 'vitest'
import { until } from './hosts.js'
import { pair, session } from './pair.js'

const name = 'gamekeeper_forwarded_duration_seconds_count'

it('a host measures the calls that it forwards, and those that do not reach the leader', async () => {
  const { election, leader, other } = await pair(2, { holdMs: 1 })
  const metrics = fleetMetrics(other.fleet)
  const idle = fleetMetrics(leader.fleet)
  const body = JSON.stringify(session())
  const allocate = () =>
    fetch(other.allocate, { method: 'POST', headers: { 'content-type': 'application/json' }, body })
  expect((await allocate()).status).toBe(200)
  expect(await metrics.text()).toContain(`${name}{kind="call",outcome="ok"} 1`)
  expect(await idle.text()).not.toContain(`${name}{`)
  election.pretend('127.0.0.1:1')
  expect((await allocate()).status).toBe(503)
  await until(async () => (await metrics.text()).includes(`${name}{kind="call",outcome="unsent"}`))
})
