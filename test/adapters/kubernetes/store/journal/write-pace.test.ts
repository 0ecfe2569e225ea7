/** How many entries there may be, by how long writes take. */
import { expect, it } from 'vitest'
import { WritePace } from '../../../../../adapters/kubernetes/store/journal/status-writer.js'
import { virtualClock } from '../../../../../src/testing/virtual-clock.js'

function paceWith(connections: number) {
  const clock = virtualClock()
  const pace = new WritePace(clock, connections)
  const take = (ms: number) => new Promise<void>((resolve) => void clock.after(ms, resolve))
  return {
    clock,
    pace,

    /** Writes that run at the same time. */
    async write(count: number, ms: number): Promise<void> {
      const writes = Promise.all(Array.from({ length: count }, () => pace.measure(() => take(ms))))
      await clock.advance(ms)
      await writes
    },

    /** Statuses, this many at a time. */
    async writeStatuses(atOnce: number, ms: number): Promise<void> {
      const rounds = 3
      const writeInTurn = async () => {
        for (let round = 0; round < rounds; round++) await pace.measure(() => take(ms), true)
      }
      const writes = Promise.all(Array.from({ length: atOnce }, writeInTurn))
      await clock.advance(rounds * ms)
      await writes
    },
  }
}

it('there may be as many as are written to statuses in 400 ms', async () => {
  const { pace, write } = paceWith(16)
  await write(5, 20)
  expect(pace.maxEntries).toBe((6 * 400) / 20)
})

it('the first writes count at once, so a slow API server is noticed by the first', async () => {
  const { pace, write } = paceWith(16)
  await write(1, 100)
  expect(pace.maxEntries).toBe((6 * 400) / 100)
})

it('three that were held up for a moment change nothing', async () => {
  const { pace, write } = paceWith(16)
  await write(5, 20)
  await write(3, 500)
  expect(pace.maxEntries).toBe((6 * 400) / 20)
  await write(1, 500)
  expect(pace.maxEntries).toBe(Math.floor((6 * 400) / 500))
})

it('writes of callers that run beside more than the statuses do not count', async () => {
  const { pace, write } = paceWith(16)
  await write(5, 20)
  await write(16, 200)
  expect(pace.maxEntries).toBe((6 * 400) / 20)
})

it('single writes, which are quick on a busy API server, do not make up for slow statuses', async () => {
  const { pace, write, writeStatuses } = paceWith(16)
  await writeStatuses(6, 200)
  await write(5, 20)
  expect(pace.maxEntries).toBe((6 * 400) / 200)
  await writeStatuses(6, 40)
  expect(pace.maxEntries).toBe((6 * 400) / 40)
})

it('nor do statuses that run beside fewer than there may be', async () => {
  const { pace, writeStatuses } = paceWith(16)
  await writeStatuses(6, 200)
  await writeStatuses(5, 20)
  expect(pace.maxEntries).toBe((6 * 400) / 200)
})

it('that statuses were slow counts for half a minute', async () => {
  const { clock, pace, write, writeStatuses } = paceWith(16)
  await writeStatuses(6, 200)
  await write(5, 20)
  await clock.advance(30_000)
  expect(pace.maxEntries).toBe((6 * 400) / 20)
})

it('writes of callers that are quick beside many count, so that a slow API server is not taken for slow for ever', async () => {
  const { pace, write } = paceWith(16)
  await write(7, 500)
  await write(16, 20)
  expect(pace.maxEntries).toBe((6 * 400) / 20)
})

it('with few connections, those that a burst begins with count', async () => {
  const { pace, write } = paceWith(1)
  await write(3, 100)
  expect(pace.maxEntries).toBe(4)
})

it('a quick refusal does not count, and a slow one does', async () => {
  const { clock, pace, write } = paceWith(16)
  const refuse = async (ms: number) => {
    const refused = pace.measure(async () => {
      await new Promise<void>((resolve) => void clock.after(ms, resolve))
      throw new Error('refused')
    })
    const seen = expect(refused).rejects.toThrow('refused')
    await clock.advance(ms)
    await seen
  }
  await write(1, 100)
  for (let i = 0; i < 7; i++) await refuse(1)
  expect(pace.maxEntries).toBe((6 * 400) / 100)
  for (let i = 0; i < 4; i++) await refuse(400)
  expect(pace.maxEntries).toBe(6)
})
