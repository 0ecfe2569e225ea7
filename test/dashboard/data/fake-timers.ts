/**
 * Timers that a test advances, with the promises between them, and nobody else: files that ran earlier in the same process may have left thousands of
 * timers, and waits that still look.
 */
import { setImmediate } from 'node:timers/promises'
import { vi } from 'vitest'

/** For `beforeEach`: what it returns ends it. */
export function fakeTimers(): () => void {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'Date', 'performance'] })
  // Each time that it looks, a `vi.waitFor` advances fake timers.
  const unseen = vi.spyOn(vi, 'isFakeTimers').mockReturnValue(false)
  return () => {
    unseen.mockRestore()
    vi.useRealTimers()
  }
}

/** In one step: `advanceTimersByTimeAsync` waits for the real event loop at each timer, also those that are left. */
export async function advance(ms: number): Promise<void> {
  await setImmediate()
  vi.advanceTimersByTime(ms)
  await setImmediate()
}
