import { setImmediate as nextTurn } from 'node:timers/promises'
import { FleetError } from 'gamekeeper'
import { type VirtualClock, virtualClock } from 'gamekeeper/testing'
import { describe, expect, it, onTestFinished, vi } from 'vitest'

describe('the virtual clock', () => {
  it('stands still until it is moved, and moves both times together', async () => {
    const clock = virtualClock({ now: 1_000_000 })
    expect([clock.now(), clock.elapsed()]).toEqual([1_000_000, 0])
    await clock.advance(1_500)
    expect([clock.now(), clock.elapsed()]).toEqual([1_001_500, 1_500])
  })

  it('fires timers in the order of time, those of one moment in the order in which they were set', async () => {
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

  it('keeps that order for thousands of timers, cancelled ones among them', async () => {
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

  it('fires in the same advance what code set meanwhile, if it is due, however that code awaits', async () => {
    const clock = virtualClock()
    const seen: number[] = []
    const work = async () => {
      for (let i = 0; i < 3; i++) {
        await new Promise<void>((resolve) => clock.after(10, resolve))
        await nextTurn()
        await Promise.resolve()
        seen.push(clock.elapsed())
      }
    }
    const done = work()
    await clock.advance(30)
    expect(seen).toEqual([10, 20, 30])
    await done
  })

  it('lets all promises settle between two timers', async () => {
    const clock = virtualClock()
    const order: string[] = []
    clock.after(10, () => {
      order.push('first')
      void (async () => {
        for (let i = 0; i < 50; i++) await Promise.resolve()
        for (let i = 0; i < 5; i++) await nextTurn()
        order.push('what the first one caused')
      })()
    })
    clock.after(10, () => order.push('second'))
    await clock.advance(10)
    expect(order).toEqual(['first', 'what the first one caused', 'second'])
  })

  it('settles without moving time, and fires what is due now', async () => {
    const clock = virtualClock()
    const seen: string[] = []
    void Promise.resolve().then(() => clock.after(0, () => seen.push('now')))
    clock.after(1, () => seen.push('later'))
    await clock.settle()
    expect(seen).toEqual(['now'])
    expect(clock.elapsed()).toBe(0)
  })

  it('cancels a timer once and for all, also after it fired', async () => {
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

  it('jumps the wall time alone, and no timer notices', async () => {
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

  it('fires late what came due while it was suspended', async () => {
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

  it('goes on until a condition holds and no further', async () => {
    const clock = virtualClock()
    let beats = 0
    const beat = () => {
      beats++
      clock.after(1_000, beat)
    }
    clock.after(1_000, beat)
    await clock.until(() => beats === 7)
    expect([beats, clock.elapsed()]).toEqual([7, 7_000])
  })

  it('says so when a condition does not come true in time, and when no timer is left that could make it so', async () => {
    const clock = virtualClock()
    await expect(clock.until(() => false)).rejects.toThrow(/no timer left/)
    const tick = () => void clock.after(1_000, tick)
    tick()
    await expect(clock.until(() => false, 5_000)).rejects.toThrow(/not within 5000 ms/)
    expect(clock.elapsed()).toBe(5_000)
  })

  it('runs two advances at once one after another', async () => {
    const clock = virtualClock()
    await Promise.all([clock.advance(10), clock.advance(20)])
    expect(clock.elapsed()).toBe(30)
  })

  it('is not held up by other clocks that run at the same time', async () => {
    const turns = vi.spyOn(process, 'getActiveResourcesInfo')
    onTestFinished(() => turns.mockRestore())
    const run = async (clock: VirtualClock) => {
      const tick = () => void clock.after(1, tick)
      tick()
      await clock.advance(100)
      return clock.elapsed()
    }
    expect(await Promise.all([virtualClock(), virtualClock(), virtualClock()].map(run))).toEqual([100, 100, 100])
    // One for each timer and one before the first; a few more are others' business.
    expect(turns.mock.calls.length).toBeLessThan(2 * 3 * 101)
  })

  it('passes on what a timer throws, and goes on afterwards', async () => {
    const clock = virtualClock()
    clock.after(10, () => {
      throw new Error('boom')
    })
    await expect(clock.advance(100)).rejects.toThrow('boom')
    expect(clock.elapsed()).toBe(10)
    await clock.advance(90)
    expect(clock.elapsed()).toBe(100)
  })

  it('ends with an error instead of never when timers set each other without end', async () => {
    const clock = virtualClock()
    const again = () => void clock.after(0, again)
    again()
    await expect(clock.settle()).rejects.toThrow(/set each other/)
  })

  it('draws the same bytes from the same seed, and others from another', () => {
    const draw = (seed: number) => {
      const clock = virtualClock({ seed })
      return [...clock.randomBytes(16), ...clock.randomBytes(16)]
    }
    expect(draw(7)).toEqual(draw(7))
    expect(draw(7)).not.toEqual(draw(8))
    expect(draw(7).slice(0, 16)).not.toEqual(draw(7).slice(16))
  })

  it('refuses a wait that a real timer could not keep, and time that goes back', async () => {
    const clock = virtualClock()
    expect(() => clock.after(2 ** 31, () => {})).toThrow(FleetError)
    expect(() => clock.after(Number.NaN, () => {})).toThrow(FleetError)
    await expect(clock.advance(-1)).rejects.toThrow(/forward/)
    await clock.settle()
  })
})
