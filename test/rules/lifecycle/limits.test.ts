/** A build's limits (`spec.health`) override those of the fleet. */
import { describe, expect, it } from 'vitest'
import { lifeLimits } from '../../../src/rules/lifecycle/health.js'
import { frozen } from '../support.js'

const own = frozen({ firstHeartbeatMs: 60_000, silenceMs: 10_000, lateStartMs: 90_000 })
const fleet = frozen({ ...own, heartbeatIntervalMs: 1_000 })

describe('the time limits of a server', () => {
  it.each([
    ['are the fleet’s when the build has no health', undefined, own],
    ['are the fleet’s when the build sets none', {}, own],
    ['are the build’s where it sets them', { silenceSeconds: 30 }, { ...own, silenceMs: 30_000 }],
    ['allow silence for at least two heartbeat intervals', { silenceSeconds: 1 }, { ...own, silenceMs: 2_000 }],
    [
      'are all the build’s, converted to ms',
      {
        ...{ firstHeartbeatSeconds: 1, silenceSeconds: 2, lateStartSeconds: 5, initializingSeconds: 3 },
        ...{ sessionSeconds: 4, endLongSessions: true },
      },
      { firstHeartbeatMs: 1_000, silenceMs: 2_000, lateStartMs: 5_000, initializingMs: 3_000, sessionMs: 4_000 },
    ],
  ])('%s', (_row, health, expected) => {
    expect(lifeLimits(frozen(health), fleet)).toStrictEqual(expected)
  })
})
