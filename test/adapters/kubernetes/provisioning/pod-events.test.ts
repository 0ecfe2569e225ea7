/** How much of an API server's time the events of pods take. */
import { virtualClock } from 'gamekeeper/testing'
import { expect, it } from 'vitest'
import { PodEvents } from '../../../../adapters/kubernetes/provisioning/slow-starts.js'
import { silentLogger } from '../../../../src/contracts/logger.js'

/** How often events are read within a minute if each read takes so long. Many pods do not start. */
async function readsIn60s(readMs: number): Promise<number> {
  const clock = virtualClock()
  const pause = (ms: number) => new Promise<void>((resolve) => clock.after(ms, resolve))
  let reads = 0
  const api = {
    closed: false,
    pause,
    list() {
      reads++
      return pause(readMs).then(() => ({ items: [], revision: '1' }))
    },
  }
  const events = new PodEvents({ api, clock, logger: silentLogger })
  for (let n = 0; n < 300; n++) {
    void events.read({ ref: { namespace: 'games', name: `s-${n}` }, podUid: `uid-${n}` }, () => true)
  }
  await clock.advance(59_999)
  return reads
}

it.each([
  { readMs: 1, reads: 240 },
  { readMs: 100, reads: 120 },
  { readMs: 1_000, reads: 12 },
])('reads that take $readMs ms keep the API server busy for at most a fifth of the time', async ({ readMs, reads }) => {
  expect(await readsIn60s(readMs)).toBe(reads)
})

it('a read that times out holds up the others for ten more seconds', async () => {
  expect(await readsIn60s(10_000)).toBe(3)
})
