import { setImmediate as nextTurn } from 'node:timers/promises'
import { FleetError } from 'gamekeeper'
import { type VirtualClock, virtualClock } from 'gamekeeper/testing'
import { describe, expect, it, onTestFinished, vi } from 'vitest'

describe('the virtual clock', () => {
  it('stands still until advanced, and advances wall time and elapsed time together', async () => {
    const clock = virtualClock({ now: 1_000_000 })
    expect([clock.now(), clock.elapsed()]).toEqual([1_000_000, 0])
    await clock.advance(1_500)
    expect([clock.now(), clock.elapsed()]).toEqual([1_001_500, 1_500])
  })

  it('fires timers in order of their time, and timers with the same time in the order in which they were set', async () => {
    const clock = virtualClock()
    const fired: string[] = []
    for (const [name, ms] of [
      ['c', 30],
      ['a', 10],
      ['b1', 20],
      ['b2', 20],
      ['d', 40],
    ] as const) {
      clock.after(ms, () => fired.push(`${name}@${clock.elapsed()}`))
    }
    await clock.advance(30)
    expect(fired).toEqual(['a@10', 'b1@20', 'b2@20', 'c@30'])
    expect(clock.pending).toBe(1)
  })

  it('keeps the order for thousands of timers, some of them cancelled', async () => {
    const clock = virtualClock()
    const fired: number[] = []
    const cancels: (() => void)[] = []
    for (let i = 0; i < 3_000; i++) {
      const ms = (i * 7_919) % 1_009
      const cancel = clock.after(ms, () => fired.push(ms))
      if (i % 3 === 0) cancels.push(cancel)
    }
    for (const cancel of cancels) cancel()
    expect(clock.pending).toBe(2_000)
    await clock.advance(2_000)
    expect(fired).toHaveLength(2_000)
    expect(fired).toEqual([...fired].sort((a, b) => a - b))
    expect(clock.pending).toBe(0)
  })

  it('fires timers that are set during an advance, if they become due in it', async () => {
    const clock = virtualClock()
    const fired: number[] = []
    const work = async () => {
      for (let i = 0; i < 3; i++) {
        await new Promise<void>((resolve) => clock.after(10, resolve))
        await nextTurn()
        await Promise.resolve()
        fired.push(clock.elapsed())
      }
    }
    const done = work()
    await clock.advance(30)
    expect(fired).toEqual([10, 20, 30])
    await done
  })

  it('settles all promises between two timers', async () => {
    const clock = virtualClock()
    const order: string[] = []
    clock.after(10, () => {
      order.push('first')
      void (async () => {
        for (let i = 0; i < 50; i++) await Promise.resolve()
        for (let i = 0; i < 5; i++) await nextTurn()
        order.push('caused by first')
      })()
    })
    clock.after(10, () => order.push('second'))
    await clock.advance(10)
    expect(order).toEqual(['first', 'caused by first', 'second'])
  })

  it('settles without advancing time, and fires timers that are due now', async () => {
    const clock = virtualClock()
    const fired: string[] = []
    void Promise.resolve().then(() => clock.after(0, () => fired.push('now')))
    clock.after(1, () => fired.push('later'))
    await clock.settle()
    expect(fired).toEqual(['now'])
    expect(clock.elapsed()).toBe(0)
  })

  it('allows a timer to be cancelled repeatedly and after it fired', async () => {
    const clock = virtualClock()
    let fired = 0
    const cancelBefore = clock.after(5, () => fired++)
    const cancelAfter = clock.after(6, () => fired++)
    cancelBefore()
    cancelBefore()
    expect(clock.pending).toBe(1)
    await clock.advance(10)
    cancelAfter()
    expect([fired, clock.pending]).toEqual([1, 0])
  })

  it('jumps the wall time without affecting timers', async () => {
    const clock = virtualClock({ now: 0 })
    let fired = false
    clock.after(1_000, () => (fired = true))
    clock.jumpWall(3_600_000)
    await clock.settle()
    expect([clock.now(), clock.elapsed(), fired]).toEqual([3_600_000, 0, false])
    clock.jumpWall(-7_200_000)
    await clock.advance(1_000)
    expect([clock.now(), clock.elapsed(), fired]).toEqual([-3_599_000, 1_000, true])
  })

  it('fires timers that became due during a suspension afterwards', async () => {
    const clock = virtualClock()
    const firedAt: number[] = []
    clock.after(10, () => {
      firedAt.push(clock.elapsed())
      clock.after(10, () => firedAt.push(clock.elapsed()))
    })
    await clock.suspend(60_000)
    expect(firedAt).toEqual([60_000])
    await clock.advance(10)
    expect(firedAt).toEqual([60_000, 60_010])
  })

  it('advances until a condition holds, and no further', async () => {
    const clock = virtualClock()
    let ticks = 0
    const tick = () => {
      ticks++
      clock.after(1_000, tick)
    }
    clock.after(1_000, tick)
    await clock.until(() => ticks === 7)
    expect([ticks, clock.elapsed()]).toEqual([7, 7_000])
  })

  it('rejects when a condition does not hold in time or no timer is left', async () => {
    const clock = virtualClock()
    await expect(clock.until(() => false)).rejects.toThrow(/no timer is left/)
    const tick = () => void clock.after(1_000, tick)
    tick()
    await expect(clock.until(() => false, 5_000)).rejects.toThrow(/not within 5000 ms/)
    expect(clock.elapsed()).toBe(5_000)
  })

  it('runs concurrent advances one after another', async () => {
    const clock = virtualClock()
    await Promise.all([clock.advance(10), clock.advance(20)])
    expect(clock.elapsed()).toBe(30)
  })

  it('does not wait for other virtual clocks', async () => {
    const turns = vi.spyOn(process, 'getActiveResourcesInfo')
    onTestFinished(() => turns.mockRestore())
    const run = async (clock: VirtualClock) => {
      const tick = () => void clock.after(1, tick)
      tick()
      await clock.advance(100)
      return clock.elapsed()
    }
    expect(await Promise.all([virtualClock(), virtualClock(), virtualClock()].map(run))).toEqual([100, 100, 100])
    // One turn per timer and one before the first, with a margin for other immediates.
    expect(turns.mock.calls.length).toBeLessThan(2 * 3 * 101)
  })

  it('rejects with the error of a timer, and can be advanced afterwards', async () => {
    const clock = virtualClock()
    clock.after(10, () => {
      throw new Error('boom')
    })
    await expect(clock.advance(100)).rejects.toThrow('boom')
    expect(clock.elapsed()).toBe(10)
    await clock.advance(90)
    expect(clock.elapsed()).toBe(100)
  })

  it('rejects when timers re-arm each other endlessly', async () => {
    const clock = virtualClock()
    const again = () => void clock.after(0, again)
    again()
    await expect(clock.settle()).rejects.toThrow(/set each other/)
  })

  it('generates the same bytes for the same seed, and different bytes for another', () => {
    const draw = (seed: number) => {
      const clock = virtualClock({ seed })
      return [...clock.randomBytes(16), ...clock.randomBytes(16)]
    }
    expect(draw(7)).toEqual(draw(7))
    expect(draw(7)).not.toEqual(draw(8))
    expect(draw(7).slice(0, 16)).not.toEqual(draw(7).slice(16))
  })

  it('rejects a delay that is too long for a real timer, and negative time', async () => {
    const clock = virtualClock()
    expect(() => clock.after(2 ** 31, () => {})).toThrow(FleetError)
    expect(() => clock.after(Number.NaN, () => {})).toThrow(FleetError)
    await expect(clock.advance(-1)).rejects.toThrow(/can only advance/)
    await clock.settle()
  })
})
