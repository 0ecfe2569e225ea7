/**
 * Timers that a test advances, with the promises between them. Advances in one step: `advanceTimersByTimeAsync` waits for the real event loop at each
 * timer, also those of what earlier files in the same process have left open, which can be thousands.
 */
import { setImmediate } from 'node:timers/promises'
import { vi } from 'vitest'

export function fakeTimers(): void {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'Date', 'performance'] })
}

export async function advance(ms: number): Promise<void> {
  await setImmediate()
  vi.advanceTimersByTime(ms)
  await setImmediate()
}
