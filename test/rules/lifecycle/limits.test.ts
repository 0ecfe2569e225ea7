/** Limits of a build (`spec.health`) in place of the fleet's: what holds when both speak, one, or none. */
import { describe, expect, it } from 'vitest'
import { lifeLimits } from '../../../src/rules/lifecycle/limits.js'
import { frozen } from '../support.js'

const own = frozen({ firstHeartbeatMs: 60_000, silenceMs: 10_000 })
const fleet = frozen({ ...own, heartbeatIntervalMs: 1_000 })

describe('the limits of a server’s life', () => {
  it.each([
    ['are the fleet’s where the build has none', undefined, own],
    ['are the fleet’s where the build names none', {}, own],
    ['are the build’s where it has some', { silenceSeconds: 30 }, { ...own, silenceMs: 30_000 }],
    ['grant two heartbeats to whoever speaks as it is told', { silenceSeconds: 1 }, { ...own, silenceMs: 2_000 }],
    [
      'are all the build’s, in ms',
      { firstHeartbeatSeconds: 1, silenceSeconds: 2, initializingSeconds: 3, sessionSeconds: 4, endLongSessions: true },
      { firstHeartbeatMs: 1_000, silenceMs: 2_000, initializingMs: 3_000, sessionMs: 4_000 },
    ],
  ])('%s', (_row, health, expected) => {
    expect(lifeLimits(frozen(health), fleet)).toStrictEqual(expected)
  })
})
