/** Every abuse once, against one bundled server with live matches. The long run is `npm run soak -- --abuse`. */
import { expect, it } from 'vitest'
import { abuses, abuseSoak } from './abuse-soak.js'

it('no abuse ends a match, loses a session or gives it two servers', { timeout: 300_000 }, async () => {
  const run = abuseSoak({ length: { rounds: 1 }, matches: 2 })
  if (process.platform !== 'linux') {
    await expect(run).rejects.toThrow('requires Linux')
    return
  }
  const { violations, rounds, matches, checks, heartbeats } = await run
  expect(violations).toEqual([])
  expect(rounds).toEqual(Object.fromEntries(abuses.map(({ name }) => [name, 1])))
  expect(matches).toBe(2)
  expect(checks).toBeGreaterThan(0)
  expect(heartbeats.count).toBeGreaterThan(0)
})
