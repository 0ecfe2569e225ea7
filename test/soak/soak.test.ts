/** A short soak test. The long one is `npm run soak`. */
import { expect, it } from 'vitest'
import { soak } from './soak.js'

it('a short soak test with four hosts and a drain finds no violation', { timeout: 300_000 }, async () => {
  const run = soak({ length: { steps: 36 }, seed: 4 })
  if (process.platform !== 'linux') {
    await expect(run).rejects.toThrow('requires Linux')
    return
  }
  const { violations, counts, hosts, steps, errorsLogged } = await run
  expect(violations).toEqual([])
  expect(errorsLogged).toEqual({})
  expect(steps).toBe(36)
  // Three hosts run the workload, and one deletes the builds.
  expect(hosts).toBe(4)
  expect(counts['sessions allocated']).toBeGreaterThan(0)
})
