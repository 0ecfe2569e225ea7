/** One fleet for a process, however often the module that creates it is loaded. */
import { createFleet, fleetOnce } from 'gamekeeper'
import { memoryBackend } from 'gamekeeper/memory'
import { expect, it, onTestFinished, vi } from 'vitest'

it('creates a fleet once, also for another copy of the package, and anew after it was closed', async () => {
  const create = vi.fn(() => createFleet({ backend: memoryBackend() }))
  const [first, second] = await Promise.all([fleetOnce('arena', create), fleetOnce('arena', create)])
  vi.resetModules()
  const copy = await import('gamekeeper')
  expect(copy.fleetOnce).not.toBe(fleetOnce)
  expect([first === second, (await copy.fleetOnce('arena', create)) === first, create.mock.calls.length]).toEqual([
    true,
    true,
    1,
  ])
  await first.close()
  const next = await fleetOnce('arena', create)
  onTestFinished(() => next.close())
  expect([next === first, (await next.health()).leads, create.mock.calls.length]).toEqual([false, true, 2])
})

it('tries again after a creation that failed', async () => {
  await expect(fleetOnce('broken', () => Promise.reject(new Error('no backend')))).rejects.toThrow('no backend')
  const fleet = await fleetOnce('broken', () => createFleet({ backend: memoryBackend() }))
  await fleet.close()
})
