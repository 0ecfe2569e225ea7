/** Waits for a value for a limited time, without giving it up. */
import type { Clock } from '../contracts/clock.js'

/** Resolves with the value, or with undefined if it takes longer than `ms`. */
export async function within<T>(ms: number, value: Promise<T>, clock: Clock): Promise<T | undefined> {
  let cancel = () => {}
  const late = new Promise<undefined>((resolve) => {
    cancel = clock.after(ms, () => resolve(undefined))
  })
  return Promise.race([value, late]).finally(cancel)
}
