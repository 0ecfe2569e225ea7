/** A test that waits for a call moves the clock with it, and hears of a clock that stands still or is not the only one. */
import { createFleet, systemClock } from 'gamekeeper'
import { memoryBackend } from 'gamekeeper/memory'
import { virtualClock } from 'gamekeeper/testing'
import { expect, it, onTestFinished, vi } from 'vitest'

async function open() {
  const clock = virtualClock()
  const fleet = await createFleet({ backend: memoryBackend({ clock, readyAfterMs: 3_000 }), clock })
  onTestFinished(() => fleet.close())
  const spec = { buildID: 'arena', standingBy: 1, max: 1, run: { command: ['game'] } }
  await fleet.builds.create({ metadata: { name: 'arena' }, spec })
  return { clock, fleet }
}

it('run() moves the clock until the call has its answer', async () => {
  const { clock, fleet } = await open()
  const request = { buildID: 'arena', sessionID: 'one' }
  await clock.run(fleet.allocate(request, { waitMs: 10_000 }))
  expect((await fleet.sessions.get('one')).sessionID).toBe('one')
  expect(clock.elapsed()).toBe(3_000)
})

it('run() rejects as the call does', async () => {
  const { clock, fleet } = await open()
  await clock.run(fleet.allocate({ buildID: 'arena', sessionID: 'one' }, { waitMs: 10_000 }))
  const full = clock.run(fleet.allocate({ buildID: 'arena', sessionID: 'two' }, { waitMs: 10_000 }))
  await expect(full).rejects.toMatchObject({ code: 'max-reached' })
})

it('run() says that nothing can settle the promise', async () => {
  const clock = virtualClock()
  await expect(clock.run(new Promise(() => {}))).rejects.toThrow('the promise has not settled, and no timer is left')
  clock.after(10_000, () => {})
  await expect(clock.run(new Promise(() => {}), 1_000)).rejects.toThrow(
    'the promise has not settled, not within 1000 ms',
  )
})

it('warns of a clock that stands still while something waits for it', async () => {
  // The warning comes once in a process, which may have run other files before.
  vi.resetModules()
  const fresh = await import('gamekeeper/testing')
  const warnings: Error[] = []
  const note = (warning: Error) => void warnings.push(warning)
  process.on('warning', note)
  onTestFinished(() => void process.off('warning', note))
  fresh.virtualClock().after(1_000, () => {})
  const warning = {
    name: 'VirtualClockWarning',
    message: expect.stringMatching(/timers wait for it \(1\): advance it, or await clock\.run\(promise\)/),
  }
  await expect.poll(() => warnings).toContainEqual(expect.objectContaining(warning))
})

it('a fleet refuses another clock than its backend has', async () => {
  const clock = virtualClock()
  await expect(createFleet({ backend: memoryBackend({ clock }) })).rejects.toMatchObject({
    code: 'invalid',
    message: expect.stringContaining('createFleet: clock is missing, but there is that of the backend'),
  })
  for (const backend of [memoryBackend({ clock: systemClock }), memoryBackend()]) {
    await expect(createFleet({ backend, clock })).rejects.toMatchObject({
      code: 'invalid',
      message: expect.stringContaining('createFleet: clock is another clock than that of the backend'),
    })
  }
})
