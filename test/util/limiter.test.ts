/** The concurrency limiter, and timeouts of its calls. */
import { virtualClock } from 'gamekeeper/testing'
import { describe, expect, it } from 'vitest'
import { withTimeout } from '../../src/util/with-timeout.js'
import { limiter } from '../../src/util/limiter.js'

function gate() {
  let open = () => {}
  const opened = new Promise<void>((resolve) => (open = resolve))
  return { open, opened }
}

describe('a limiter', () => {
  it('runs tasks up to its limit, and queues the rest in order of arrival', async () => {
    const { settle } = virtualClock()
    const limited = limiter(2)
    const begun: number[] = []
    const gates = [gate(), gate(), gate(), gate()]
    const all = gates.map(({ opened }, index) =>
      limited(() => {
        begun.push(index)
        return opened
      }),
    )
    await settle()
    expect(begun).toEqual([0, 1])
    gates[1]?.open()
    await settle()
    expect(begun).toEqual([0, 1, 2])
    gates[0]?.open()
    await settle()
    expect(begun).toEqual([0, 1, 2, 3])
    gates.forEach(({ open }) => open())
    await Promise.all(all)
  })

  it('starts the next task after one fails', async () => {
    const limited = limiter(1)
    const failed = limited(() => Promise.reject(new Error('no')))
    const next = limited(() => Promise.resolve('yes'))
    await expect(failed).rejects.toThrow('no')
    expect(await next).toBe('yes')
  })

  it('never exceeds its limit when tasks arrive while others finish', async () => {
    const limited = limiter(3)
    let running = 0
    let most = 0
    const task = async () => {
      most = Math.max(most, ++running)
      await Promise.resolve()
      running--
    }
    const wave = () => Array.from({ length: 10 }, () => limited(task))
    await Promise.all([...wave(), Promise.resolve().then(() => Promise.all(wave())), ...wave()])
    expect([most, running]).toEqual([3, 0])
  })
})

describe('a call with a timeout', () => {
  it('resolves like the call, and leaves no timer behind', async () => {
    const clock = virtualClock()
    expect(await withTimeout(clock, 1_000, 'it', () => Promise.resolve(7))).toBe(7)
    await expect(withTimeout(clock, 1_000, 'it', () => Promise.reject(new Error('no')))).rejects.toThrow('no')
    await clock.settle()
    expect(clock.pending).toBe(0)
  })

  it('rejects with unavailable at the timeout, and aborts the call through its signal', async () => {
    const clock = virtualClock()
    let signal: AbortSignal | undefined
    const call = withTimeout(clock, 5_000, 'the list of instances', (given) => {
      signal = given
      return new Promise<never>(() => {})
    })
    const outcome = call.catch((error: unknown) => error)
    await clock.advance(4_999)
    expect(signal?.aborted).toBe(false)
    await clock.advance(1)
    expect(await outcome).toMatchObject({
      code: 'unavailable',
      retryable: true,
      message: 'the list of instances timed out after 5 s',
    })
    expect(signal?.aborted).toBe(true)
  })
})
