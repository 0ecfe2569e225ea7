/** The queue of builds to attend to: each once, never twice at once, again when it asks for it. */
import { virtualClock } from 'gamekeeper/testing'
import { describe, expect, it } from 'vitest'
import { workQueue } from '../../../src/engine/reconcile/work-queue.js'

function queueOf(attend: (key: string) => number | undefined = () => undefined) {
  const clock = virtualClock()
  const attended: string[] = []
  const queue = workQueue<string>(clock, (key) => {
    attended.push(`${key}@${clock.elapsed()}`)
    return attend(key)
  })
  return { clock, queue, attended }
}

describe('the work queue', () => {
  it('attends later than in the call that asked, so that all that one event changes is seen together', async () => {
    const { clock, queue, attended } = queueOf()
    queue.add('a')
    expect(attended).toEqual([])
    await clock.settle()
    expect(attended).toEqual(['a@0'])
  })

  it('attends once to a key that was added many times, and to keys in the order in which they came', async () => {
    const { clock, queue, attended } = queueOf()
    for (const key of ['b', 'a', 'b', 'b', 'a']) queue.add(key)
    await clock.settle()
    expect(attended).toEqual(['b@0', 'a@0'])
  })

  it('attends again to a key that is added while it is attended to', async () => {
    let times = 0
    const { clock, queue, attended } = queueOf((key) => {
      if (++times === 1) queue.add(key)
      return undefined
    })
    queue.add('a')
    await clock.settle()
    expect(attended).toEqual(['a@0', 'a@0'])
  })

  it('lets everybody else have a turn while one pass follows another', async () => {
    const { clock, queue, attended } = queueOf((key) => {
      if (attended.length < 1_000) queue.add(key)
      return undefined
    })
    const turns: number[] = []
    const turn = () => {
      turns.push(attended.length)
      if (attended.length < 1_000) clock.after(0, turn)
    }
    clock.after(0, turn)
    queue.add('a')
    await clock.settle()
    expect(attended.length).toBe(1_000)
    expect(turns.length).toBeGreaterThan(5)
  })

  it('comes back after the time that a pass asks for', async () => {
    let again: number | undefined = 500
    const { clock, queue, attended } = queueOf(() => {
      const ms = again
      again = undefined
      return ms
    })
    queue.add('a')
    await clock.advance(10_000)
    expect(attended).toEqual(['a@0', 'a@500'])
    expect(clock.pending).toBe(0)
  })

  it('comes back at the earliest of the times that passes asked for', async () => {
    const asks = [5_000, 200, 3_000, undefined, undefined]
    const { clock, queue, attended } = queueOf(() => asks.shift())
    queue.add('a')
    await clock.settle()
    queue.add('a')
    await clock.settle()
    queue.add('a')
    await clock.advance(10_000)
    expect(attended.slice(0, 4)).toEqual(['a@0', 'a@0', 'a@0', 'a@200'])
    expect(clock.pending).toBe(0)
  })

  it('keeps no more than one timer a key', async () => {
    const { clock, queue } = queueOf(() => 1_000)
    for (let i = 0; i < 5; i++) {
      queue.add('a')
      await clock.settle()
    }
    expect(clock.pending).toBe(1)
    queue.stop()
  })

  it('does nothing after it was stopped, not even what was queued or planned', async () => {
    const { clock, queue, attended } = queueOf(() => 100)
    queue.add('a')
    await clock.settle()
    queue.add('b')
    queue.stop()
    queue.add('c')
    await clock.advance(10_000)
    expect([attended, clock.pending]).toEqual([['a@0'], 0])
  })

  it('stops in the middle of a run', async () => {
    const { clock, queue, attended } = queueOf(() => {
      queue.stop()
      return undefined
    })
    queue.add('a')
    queue.add('b')
    await clock.settle()
    expect(attended).toEqual(['a@0'])
  })
})
