/** How much of an API server's time the events of pods take. */
import { virtualClock } from 'gamekeeper/testing'
import { expect, it } from 'vitest'
import { PodEvents } from '../../../../adapters/kubernetes/provisioning/pod-events.js'
import { silentLogger } from '../../../../src/contracts/logger.js'

/** How often events are read within 10 s if each read takes so long. Many pods do not start. */
async function readsIn10s(readMs: number): Promise<number> {
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
  for (let n = 0; n < 100; n++) {
    void events.read({ ref: { namespace: 'games', name: `s-${n}` }, podUid: `uid-${n}` }, () => true)
  }
  await clock.advance(9_999)
  return reads
}

it.each([
  { readMs: 1, reads: 40 },
  { readMs: 100, reads: 20 },
  { readMs: 1_000, reads: 2 },
])('reads that take $readMs ms keep the API server busy for a fifth of the time', async ({ readMs, reads }) => {
  expect(await readsIn10s(readMs)).toBe(reads)
})
