/** The bundled server as a process with simulated game servers: its audit lines and its rate limit. */
import { expect, it } from 'vitest'
import { call } from '../http/client.js'
import { build, buildID, sessionID } from '../http/fleet.js'
import { startHost } from '../e2e/host.js'

const simulated = { BACKEND: 'memory', SAMPLE: 'off' }
const tokens = { allocate: 'a'.repeat(32), manage: 'm'.repeat(32) }
const secured = { ...simulated, ALLOCATE_TOKENS: `matchmaker:${tokens.allocate}`, MANAGE_TOKENS: tokens.manage }
const as = (token: string) => ({ headers: { Authorization: `Bearer ${token}` } })

it('writes one JSON line per change at every log level, without secrets', { timeout: 300_000 }, async () => {
  const host = await startHost({ ...secured, LOG_LEVEL: 'error' }, { terminal: true })
  const builds = `${host.management}/api/v1/gameserverbuilds`
  await call('POST', builds, { ...as(tokens.manage), body: build() })
  const allocate = `${host.allocation}/api/v1/allocate?wait=10`
  await call('POST', allocate, { ...as(tokens.allocate), body: { buildID, sessionID, sessionCookie: 'cookie-secret' } })
  await call('DELETE', `${builds}/default/arena`, as(tokens.manage))
  host.pressCtrlC()
  expect((await host.exit()).code).toBe(0)
  const lines = host.log().filter(({ event }) => event === 'Audited')
  const from = { callerKind: 'token', address: '127.0.0.1', outcome: 'done', build: 'arena' }
  expect(lines).toEqual([
    expect.objectContaining({ ...from, action: 'createBuild', caller: 'MANAGE_TOKENS[0]' }),
    expect.objectContaining({ ...from, action: 'allocate', caller: 'matchmaker', session: sessionID }),
    expect.objectContaining({ ...from, action: 'deleteBuild', caller: 'MANAGE_TOKENS[0]' }),
    expect.objectContaining({ action: 'drainFleet', caller: 'SIGINT', callerKind: 'host', outcome: 'begun' }),
  ])
  const output = host.stdout() + host.stderr()
  for (const secret of [...Object.values(tokens), 'cookie-secret']) expect(output).not.toContain(secret)
})

it('writes no audit lines with AUDIT=off, and limits each client, but not probes', { timeout: 300_000 }, async () => {
  const host = await startHost({ ...secured, AUDIT: 'off', RATE_LIMIT: '1' })
  const builds = `${host.management}/api/v1/gameserverbuilds`
  const statuses = await Promise.all(Array.from({ length: 20 }, async () => (await call('GET', builds)).status))
  expect(new Set(statuses)).toEqual(new Set([401, 429]))
  const limited = await call('GET', builds)
  expect([limited.status, limited.headers['gamekeeper-error']]).toEqual([429, 'rate-limited'])
  expect(Number(limited.headers['retry-after'])).toBeGreaterThan(0)
  // A valid token has its own limit, which requests without it do not use up.
  expect((await call('POST', builds, { ...as(tokens.manage), body: build() })).status).toBe(200)
  for (let i = 0; i < 5; i++) expect((await call('GET', `${host.management}/healthz`)).status).toBe(200)
  expect(host.log().filter(({ event }) => event === 'Audited')).toEqual([])
  await host.exit('SIGTERM')
})
