/** The outbox: events wait until changes are handled, keep their order, and survive an emitter that throws. */
import { expect, it } from 'vitest'
import type { UnnumberedEvent } from '../../src/contracts/events.js'
import { Outbox } from '../../src/engine/outbox.js'

const event = (message: string): UnnumberedEvent => ({ type: 'DrainProgress', at: 0, message, remaining: 0, active: 0 })

it('sends events once changes have been handled, and those of listeners last', () => {
  const sent: string[] = []
  let isHandling = true
  const emit = ({ message }: UnnumberedEvent) => {
    if (message === 'first') outbox.emit(event('of a listener'))
    sent.push(message)
  }
  const outbox: Outbox = new Outbox({ emit }, () => isHandling)
  outbox.emit(event('first'))
  outbox.emit(event('second'))
  expect(sent).toEqual([])
  isHandling = false
  outbox.flush()
  expect(sent).toEqual(['first', 'second', 'of a listener'])
})

it('goes on with the events that are left after one could not be sent', () => {
  const sent: string[] = []
  const emit = ({ message }: UnnumberedEvent) => {
    if (message === 'first') throw new Error('no')
    sent.push(message)
  }
  let isHandling = true
  const outbox = new Outbox({ emit }, () => isHandling)
  outbox.emit(event('first'))
  outbox.emit(event('second'))
  isHandling = false
  expect(() => outbox.flush()).toThrow('no')
  outbox.emit(event('third'))
  expect(sent).toEqual(['second', 'third'])
})
