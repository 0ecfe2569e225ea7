/** A short soak: that it still runs, finds nothing, and leaves nothing. The long one is `npm run soak`. */
import { expect, it } from 'vitest'
import { soak } from './soak.js'

it('goes through four lives of a host and a drain, and finds nothing wrong', { timeout: 300_000 }, async () => {
  const soaked = soak({ length: { steps: 36 }, seed: 4 })
  if (process.platform !== 'linux') {
    await expect(soaked).rejects.toThrow('only Linux has')
    return
  }
  const { breaches, counts, hosts, steps, errorsLogged } = await soaked
  expect(breaches).toEqual([])
  expect(errorsLogged).toEqual({})
  expect(steps).toBe(36)
  // Three that act, and after the drain a last one that clears up.
  expect(hosts).toBe(4)
  expect(counts['sessions held']).toBeGreaterThan(0)
})
