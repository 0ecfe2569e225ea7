/** The queue of builds to reconcile: each key once, never concurrently, and again after the delay that a run returns. */
import { virtualClock } from 'gamekeeper/testing'
import { describe, expect, it } from 'vitest'
import { WorkQueue } from '../../../src/engine/reconcile/work-queue.js'

function queueOf(reconcile: (key: string) => number | undefined = () => undefined) {
  const clock = virtualClock()
  const reconciled: string[] = []
  const queue = new WorkQueue<string>(clock, (key) => {
    reconciled.push(`${key}@${clock.elapsed()}`)
    return reconcile(key)
  })
  return { clock, queue, reconciled }
}

describe('the work queue', () => {
  it('runs after the call that added the key, so that one run sees all changes made by an event', async () => {
    const { clock, queue, reconciled } = queueOf()
    queue.add('a')
    expect(reconciled).toEqual([])
    await clock.settle()
    expect(reconciled).toEqual(['a@0'])
  })

  it('runs once for a key that is added repeatedly, and runs keys in order of arrival', async () => {
    const { clock, queue, reconciled } = queueOf()
    for (const key of ['b', 'a', 'b', 'b', 'a']) queue.add(key)
    await clock.settle()
    expect(reconciled).toEqual(['b@0', 'a@0'])
  })

  it('runs again for a key that is added during its run', async () => {
    let times = 0
    const { clock, queue, reconciled } = queueOf((key) => {
      if (++times === 1) queue.add(key)
      return undefined
    })
    queue.add('a')
    await clock.settle()
    expect(reconciled).toEqual(['a@0', 'a@0'])
  })

  it('yields to the event loop between consecutive runs', async () => {
    const { clock, queue, reconciled } = queueOf((key) => {
      if (reconciled.length < 1_000) queue.add(key)
      return undefined
    })
    const turns: number[] = []
    const turn = () => {
      turns.push(reconciled.length)
      if (reconciled.length < 1_000) clock.after(0, turn)
    }
    clock.after(0, turn)
    queue.add('a')
    await clock.settle()
    expect(reconciled.length).toBe(1_000)
    expect(turns.length).toBeGreaterThan(5)
  })

  it('runs again after the delay that a run returns', async () => {
    let again: number | undefined = 500
    const { clock, queue, reconciled } = queueOf(() => {
      const ms = again
      again = undefined
      return ms
    })
    queue.add('a')
    await clock.advance(10_000)
    expect(reconciled).toEqual(['a@0', 'a@500'])
    expect(clock.pending).toBe(0)
  })

  it('runs again after the shortest of the returned delays', async () => {
    const asks = [5_000, 200, 3_000, undefined, undefined]
    const { clock, queue, reconciled } = queueOf(() => asks.shift())
    queue.add('a')
    await clock.settle()
    queue.add('a')
    await clock.settle()
    queue.add('a')
    await clock.advance(10_000)
    expect(reconciled.slice(0, 4)).toEqual(['a@0', 'a@0', 'a@0', 'a@200'])
    expect(clock.pending).toBe(0)
  })

  it('keeps at most one timer per key', async () => {
    const { clock, queue } = queueOf(() => 1_000)
    for (let i = 0; i < 5; i++) {
      queue.add('a')
      await clock.settle()
    }
    expect(clock.pending).toBe(1)
    queue.stop()
  })

  it('runs nothing after stop, including keys that were queued or scheduled', async () => {
    const { clock, queue, reconciled } = queueOf(() => 100)
    queue.add('a')
    await clock.settle()
    queue.add('b')
    queue.stop()
    queue.add('c')
    await clock.advance(10_000)
    expect([reconciled, clock.pending]).toEqual([['a@0'], 0])
  })

  it('can be stopped between two keys', async () => {
    const { clock, queue, reconciled } = queueOf(() => {
      queue.stop()
      return undefined
    })
    queue.add('a')
    queue.add('b')
    await clock.settle()
    expect(reconciled).toEqual(['a@0'])
  })
})
