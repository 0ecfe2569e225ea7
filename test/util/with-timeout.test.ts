/** Timeouts of calls. */
import { virtualClock } from 'gamekeeper/testing'
import { describe, expect, it } from 'vitest'
import { withTimeout } from '../../src/util/with-timeout.js'

describe('a call with a timeout', () => {
  it('rejects at the timeout and fires its signal', async () => {
    const clock = virtualClock()
    let signal: AbortSignal | undefined
    const call = withTimeout(clock, 5_000, 'the list', (given) => {
      signal = given
      return new Promise(() => {})
    })
    const failed = expect(call).rejects.toMatchObject({
      code: 'unavailable',
      message: 'the list timed out after 5 s',
    })
    await clock.advance(5_000)
    await failed
    expect(signal?.aborted).toBe(true)
  })

  it.each([
    ['resolves', () => Promise.resolve()],
    ['rejects', () => Promise.reject(new Error('no'))],
    [
      'throws synchronously',
      () => {
        throw new Error('no')
      },
    ],
  ])('leaves no timer behind if it %s', async (_, work: () => Promise<void>) => {
    const clock = virtualClock()
    await Promise.allSettled([withTimeout(clock, 5_000, 'the list', work)])
    await clock.settle()
    expect(clock.pending).toBe(0)
  })
})
