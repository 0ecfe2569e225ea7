/** What a host forwards is measured. */
import { bearerTokens } from 'gamekeeper/http'
import { fleetMetrics } from 'gamekeeper/metrics'
import { expect, it } from 'vitest'
import { call } from '../client.js'
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

it('the host that receives a request counts it, whether or not a host leads, and the leader does not count it again', async () => {
  const authorize = bearerTokens([{ token: 'a-token-of-the-lobby', roles: ['allocate'], name: 'lobby' }])
  const { election, leader, other } = await pair(2, { holdMs: 1, serve: { authorize } })
  const metrics = fleetMetrics(other.fleet)
  const ofLeader = fleetMetrics(leader.fleet)
  const headers = { Authorization: 'Bearer a-token-of-the-lobby' }
  const allocate = () => call('POST', other.allocate, { body: session(), headers })
  const requests = async (outcome: string, operation = 'allocate') => {
    const series = `gamekeeper_requests_total{operation="${operation}",outcome="${outcome}"} `
    return (await metrics.text()).split(series)[1]?.split('\n')[0]
  }
  // So that the first refusal is an increase of a series that Prometheus knows.
  expect([await requests('ok'), await requests('not-leader')]).toEqual(['0', '0'])
  expect((await allocate()).status).toBe(200)
  const none = { buildID: 'none', sessionID: 'a-match' }
  expect((await call('POST', other.allocate, { body: none, headers })).status).toBe(404)
  expect((await call('POST', other.allocate, { body: session() })).status).toBe(401)
  expect((await call('GET', `${other.manage}/gameservers`, { headers })).status).toBe(403)
  election.lead(undefined)
  for (let i = 0; i < 3; i++) expect((await allocate()).status).toBe(503)
  expect(await requests('ok')).toBe('1')
  expect(await requests('not-found')).toBe('1')
  expect(await requests('unauthenticated')).toBe('1')
  expect(await requests('forbidden', 'listServers')).toBe('1')
  expect(await requests('not-leader')).toBe('3')
  expect(await ofLeader.text()).toContain('gamekeeper_requests_total{operation="allocate",outcome="ok"} 0')
})
