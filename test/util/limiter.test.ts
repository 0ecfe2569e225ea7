/** The concurrency limiter, and timeouts of its calls. */
import { virtualClock } from 'gamekeeper/testing'
import { describe, expect, it } from 'vitest'
import { withTimeout } from '../../src/util/with-timeout.js'
import { fairLimiter, limiter } from '../../src/util/limiter.js'

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

describe('a fair limiter', () => {
  function started(maxConcurrent: number) {
    const { settle } = virtualClock()
    const limited = fairLimiter<string>(maxConcurrent)
    const running: string[] = []
    const most: number[] = []
    const add = (group: string, name: string) => {
      const { open, opened } = gate()
      const done = limited(group, async () => {
        running.push(name)
        most.push(running.length)
        await opened
        running.splice(running.indexOf(name), 1)
      })
      return async () => {
        open()
        await done
        await settle()
      }
    }
    return { add, running, settle, most: () => Math.max(...most) }
  }

  it('lets a group start one task although another group holds every slot', async () => {
    const { add, running, settle } = started(2)
    for (const name of ['a1', 'a2', 'a3']) add('a', name)
    add('b', 'b1')
    add('b', 'b2')
    add('c', 'c1')
    await settle()
    expect(running).toEqual(['a1', 'a2', 'b1', 'c1'])
  })

  it('starts the next task of a group when its only one has finished, although another group holds every slot', async () => {
    const { add, running, settle } = started(2)
    for (const name of ['a1', 'a2', 'a3']) add('a', name)
    const finish = ['b1', 'b2', 'b3'].map((name) => add('b', name))
    await settle()
    await finish[0]?.()
    expect(running).toEqual(['a1', 'a2', 'b2'])
    await finish[1]?.()
    expect(running).toEqual(['a1', 'a2', 'b3'])
  })

  it('lets waiting groups take turns', async () => {
    const { add, running, settle } = started(3)
    const finish = ['a1', 'a2', 'a3', 'a4', 'a5'].map((name) => add('a', name))
    for (const name of ['b1', 'b2', 'b3']) add('b', name)
    await settle()
    expect(running).toEqual(['a1', 'a2', 'a3', 'b1'])
    await finish[0]?.()
    expect(running).toEqual(['a2', 'a3', 'b1'])
    await finish[1]?.()
    expect(running).toEqual(['a3', 'b1', 'a4'])
    await finish[2]?.()
    expect(running).toEqual(['b1', 'a4', 'b2'])
  })

  it('uses all its slots for one group while no other needs any', async () => {
    const { add, running, settle } = started(3)
    for (const name of ['a1', 'a2', 'a3', 'a4']) add('a', name)
    await settle()
    expect(running).toEqual(['a1', 'a2', 'a3'])
  })

  it('never runs more tasks than its limit and one for each further group', async () => {
    const { add, most } = started(4)
    const finish = Array.from({ length: 60 }, (_, n) => add(`group ${n % 5}`, `task ${n}`))
    for (const one of finish) await one()
    expect(most()).toBeLessThanOrEqual(8)
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
