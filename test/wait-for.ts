/** `vi.waitFor` waits as long as `expect.poll` does, not for its default of one second, which a busy machine exceeds. */
import { vi } from 'vitest'

const marked = Symbol.for('gamekeeper.waits')

if (!Object.hasOwn(vi, marked)) {
  const waitFor = vi.waitFor
  Object.defineProperty(vi, marked, { value: true })
  vi.waitFor = (callback, options) =>
    waitFor(callback, typeof options === 'number' ? options : { timeout: 60_000, ...options })
}
