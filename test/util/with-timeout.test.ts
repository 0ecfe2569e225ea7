/** Timeouts of calls. */
import { virtualClock } from 'gamekeeper/testing'
import { describe, expect, it } from 'vitest'
import { CallLimit, withTimeout } from '../../src/util/with-timeout.js'

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

describe('calls with a common limit', () => {
  const never = () => new Promise<never>(() => {})

  it.each([0, 1, 2_499, 2_500, 4_999, 7_499])(
    'are each rejected after one to one and a half times the limit (begun after %d ms)',
    async (begunMs) => {
      const clock = virtualClock()
      const limit = new CallLimit(clock, 5_000, 'a call to the store')
      limit.limit(never()).catch(() => {})
      await clock.advance(begunMs)
      let failure: unknown
      limit.limit(never()).catch((error: unknown) => (failure = error))
      await clock.advance(4_999)
      expect(failure).toBeUndefined()
      await clock.advance(2_501)
      expect(failure).toMatchObject({ code: 'unavailable', message: 'a call to the store timed out after 5 s' })
    },
  )

  it('keep their limit when no further ones begin, and leave no timer behind without any', async () => {
    const clock = virtualClock()
    const limit = new CallLimit(clock, 5_000, 'a call to the store')
    await limit.limit(Promise.resolve())
    limit.finish()
    expect(clock.pending).toBe(0)
    const failed = expect(limit.limit(never())).rejects.toMatchObject({ code: 'unavailable' })
    limit.finish()
    await clock.advance(7_500)
    await failed
  })

  it('settle as they would without, and leave no timer behind for long', async () => {
    const clock = virtualClock()
    const limit = new CallLimit(clock, 5_000, 'a call to the store')
    expect(await limit.limit(Promise.resolve(7))).toBe(7)
    await expect(limit.limit(Promise.reject(new Error('no')))).rejects.toThrow('no')
    await clock.advance(7_500)
    expect(clock.pending).toBe(0)
  })
})
