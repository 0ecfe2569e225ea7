/** Claims on a host that was suspended: a heartbeat that waited for it says nothing about players who have come since. */
import { expect, it } from 'vitest'
import { Claims } from '../../../src/engine/instances/heartbeats.js'
import { ResponsiveClock } from '../../../src/engine/responsive-clock.js'
import { aSession, stock, standsBy } from '../support.js'

it('a heartbeat that comes before the first tick after a suspension ends no session', () => {
  let elapsed = 0
  const { inventory, build, add } = stock()
  build.record = { ...build.record, spec: { ...build.record.spec, claimSeconds: 30 } }
  const entry = add('arena-aaaaa', { ...standsBy, state: 'Active', sessions: [aSession(1)], startedSessions: 1 })
  const responsiveClock = new ResponsiveClock({ elapsed: () => elapsed })
  // @ts-expect-error Only what claims need.
  const claims = new Claims({ clock: { now: () => elapsed }, inventory, responsiveClock })
  const heardAt = (ms: number) => {
    elapsed = ms
    claims.heard(entry, false)
    return entry.record.state
  }
  heardAt(0)
  elapsed = 31_000
  responsiveClock.tick(0)
  expect(heardAt(31_500)).toBe('Active')
  expect(heardAt(600_000), 'the host was suspended').toBe('Active')
  responsiveClock.tick(569_000)
  heardAt(600_500)
  elapsed = 631_000
  responsiveClock.tick(0)
  expect(heardAt(631_500)).toBe('Active')
  expect(heardAt(632_000), 'the time has begun again, and is over').toBe('Terminating')
})
