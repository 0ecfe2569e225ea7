/** When the reason why a server is Pending is written. */
import { expect, it } from 'vitest'
import { ServerMessages } from '../../../../adapters/kubernetes/store/display.js'
import { BackgroundWork } from '../../../../adapters/kubernetes/store/kube-events.js'
import { silentLogger } from '../../../../src/contracts/logger.js'
import { virtualClock } from '../../../../src/testing/virtual-clock.js'

function scene() {
  const clock = virtualClock()
  const written: string[] = []
  const messages = new ServerMessages({
    clock,
    work: new BackgroundWork(silentLogger),
    api: { pause: (ms) => new Promise((resolve) => void clock.after(ms, () => resolve())) },
    messages: {
      setMessage: () => true,
      async writeMessage({ name }) {
        written.push(`${name} at ${clock.elapsed()}`)
      },
    },
  })
  const show = (name: string) => messages.show({ namespace: 'games', name }, 'waiting to be scheduled')
  return { clock, messages, show, written }
}

it('a message is written 1.5 s after the first one of its server, and not again for those in between', async () => {
  const { clock, show, written } = scene()
  show('arena-1')
  await clock.advance(1_000)
  show('arena-1')
  show('arena-2')
  await clock.advance(499)
  expect(written).toEqual([])
  await clock.advance(5_000)
  expect(written).toEqual(['arena-1 at 1500', 'arena-2 at 2500'])
})

it('messages that are due are written 200 ms apart', async () => {
  const { clock, show, written } = scene()
  for (const name of ['arena-1', 'arena-2', 'arena-3']) show(name)
  await clock.advance(5_000)
  expect(written).toEqual(['arena-1 at 1500', 'arena-2 at 1700', 'arena-3 at 1900'])
})

it('a host that no longer leads writes none that waits', async () => {
  const { clock, messages, show, written } = scene()
  show('arena-1')
  messages.stop()
  await clock.advance(5_000)
  expect(written).toEqual([])
})
