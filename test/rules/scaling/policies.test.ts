/** What scaling policies ask for, and which of them decides. */
import { fc, test } from '@fast-check/vitest'
import { describe, expect, it } from 'vitest'
import {
  decide,
  type Decision,
  type Demand,
  followedFrom,
  openWindow,
  overrideMs,
  type ScalingSpec,
  type Vote,
} from '../../../src/rules/scaling/policies.js'
import { frozen } from '../support.js'

const at = Date.parse('2026-01-05T17:30:00Z')
const schedule = frozen({
  timeZone: 'Europe/Berlin',
  windows: [
    { name: 'evening', start: '0 18 * * *', end: '0 23 * * *', min: 20, percent: 30, max: 60 },
    { start: '0 6 * * *', end: '0 22 * * *', min: 8 },
  ],
})

interface Case {
  readonly scaling?: ScalingSpec
  readonly standingBy?: number
  readonly max?: number
  readonly wall?: number
  readonly elapsed?: number
}

function decided(
  { scaling = {}, standingBy = 2, max = 100, wall = at, elapsed = 0 }: Case,
  demand: Partial<Demand> = {},
  others: readonly Vote[] = [],
): Decision {
  const now = { wall, elapsed }
  const used = { inUse: 0, idleSince: undefined, overriddenUntil: undefined }
  return decide(
    { fixed: { standingBy, max }, scaling },
    { ...used, ...demand },
    { before: followedFrom(0, now), now, open: scaling.schedule && openWindow(scaling.schedule, wall), others },
  )
}

describe('the number of servers that a build keeps ready', () => {
  it.each<[string, Case, Partial<Demand>, number, string, string]>([
    ['without a policy is standingBy', {}, {}, 2, 'standingBy', 'standingBy asks for 2'],
    [
      'is a percentage of the servers in use, rounded up',
      { scaling: { buffer: { percent: 20 } } },
      { inUse: 41 },
      9,
      'buffer',
      'standingBy asks for 2; buffer asks for 9 (20 % of 41 in use)',
    ],
    [
      'is at least the minimum',
      { scaling: { buffer: { min: 5, percent: 20 } } },
      { inUse: 4 },
      5,
      'buffer',
      'standingBy asks for 2; buffer asks for 5 (20 % of 4 in use)',
    ],
    [
      'is at most the maximum of the buffer',
      { scaling: { buffer: { percent: 50, max: 10 } } },
      { inUse: 90 },
      10,
      'buffer',
      'standingBy asks for 2; buffer asks for 10 (50 % of 90 in use)',
    ],
    [
      'is standingBy if the policies ask for less',
      { scaling: { buffer: { percent: 10 } } },
      { inUse: 5 },
      2,
      'standingBy',
      'standingBy asks for 2; buffer asks for 1 (10 % of 5 in use)',
    ],
    [
      'is at most max',
      { scaling: { buffer: { min: 500 } } },
      {},
      100,
      'buffer',
      'standingBy asks for 2; buffer asks for 500',
    ],
    [
      'is what the first window that is open says',
      { scaling: { schedule } },
      { inUse: 100 },
      30,
      'schedule',
      'standingBy asks for 2; schedule (evening) asks for 30 (30 % of 100 in use)',
    ],
    [
      'is what the next says when the first is closed',
      { scaling: { schedule }, wall: at - 3_600_000 },
      {},
      8,
      'schedule',
      'standingBy asks for 2; schedule (0 6 * * *) asks for 8',
    ],
    [
      'is standingBy while no window is open',
      { scaling: { schedule }, wall: at + 12 * 3_600_000 - 3_600_000 },
      {},
      2,
      'standingBy',
      'standingBy asks for 2; no window of the schedule is open',
    ],
    [
      'is the largest of several',
      { scaling: { schedule, buffer: { percent: 50 } } },
      { inUse: 80 },
      40,
      'buffer',
      'standingBy asks for 2; buffer asks for 40 (50 % of 80 in use); schedule (evening) asks for 24 (30 % of 80 in use)',
    ],
    [
      'may be none',
      { standingBy: 0, scaling: { buffer: { percent: 20 } } },
      {},
      0,
      'standingBy',
      'standingBy asks for 0; buffer asks for 0 (20 % of 0 in use)',
    ],
    [
      'is none after the time without use',
      { scaling: { idleSeconds: 600, buffer: { min: 5 } }, elapsed: 600_000 },
      { idleSince: 0 },
      0,
      'idle',
      'nobody has used it for 600 s',
    ],
    [
      'is not, as long as somebody uses it',
      { scaling: { idleSeconds: 600 }, elapsed: 600_000 },
      {},
      2,
      'standingBy',
      'standingBy asks for 2',
    ],
    [
      'is what was set by hand, for a time',
      { standingBy: 1, scaling: { buffer: { min: 5 } } },
      { overriddenUntil: at + 1_000 },
      1,
      'override',
      'standingBy was set to 1 by hand, which overrides the policies until 2026-01-05T17:30:01Z',
    ],
    [
      'is what the policies say when that time is over',
      { standingBy: 1, scaling: { buffer: { min: 5 } } },
      { overriddenUntil: at },
      5,
      'buffer',
      'standingBy asks for 1; buffer asks for 5',
    ],
  ])('%s', (_, some, demand, standingBy, decider, message) => {
    expect(decided(some, demand)).toMatchObject({ standingBy, decider, message })
  })

  it('is looked at again when a window opens or closes, when nobody has used it for long enough, and when the override ends', () => {
    expect(decided({ scaling: { schedule } }).nextMs).toBe(3.5 * 3_600_000)
    expect(decided({ scaling: { schedule, idleSeconds: 60 } }, { idleSince: 0 }).nextMs).toBe(60_000)
    expect(decided({ scaling: { schedule } }, { overriddenUntil: at + 5_000 }).nextMs).toBe(5_000)
    expect(decided({ scaling: { buffer: { min: 1 } } }).nextMs).toBeUndefined()
  })

  it('is what a policy outside the rules asks for, if that is the most', () => {
    const vote = { by: 'function', reason: 'function match-day asks for 7' } as const
    expect([
      decided({}, {}, [{ ...vote, standingBy: 7 }]),
      decided({}, {}, [{ ...vote, standingBy: 1 }]),
    ]).toMatchObject([
      { standingBy: 7, decider: 'function', message: 'standingBy asks for 2; function match-day asks for 7' },
      { standingBy: 2, decider: 'standingBy' },
    ])
  })

  it('says that it falls later', () => {
    const now = (elapsed: number) => ({ wall: at + elapsed, elapsed })
    const asked = {
      fixed: { standingBy: 0, max: 100 },
      scaling: { buffer: { percent: 100 }, scaleDown: { delaySeconds: 60 } },
    }
    const demand = { inUse: 9, idleSince: undefined, overriddenUntil: undefined }
    const first = decide(asked, demand, { before: followedFrom(0, now(0)), now: now(0), open: undefined })
    const next = decide(asked, { ...demand, inUse: 1 }, { before: first.followed, now: now(1_000), open: undefined })
    expect(next).toMatchObject({
      standingBy: 9,
      nextMs: 60_000,
      message:
        'standingBy asks for 0; buffer asks for 1 (100 % of 1 in use); falls from 9 no sooner than 60 s after more was asked for',
    })
  })

  it('holds for an hour if it is set by hand, unless the build says otherwise', () => {
    expect([overrideMs({}), overrideMs({ overrideSeconds: 60 }), overrideMs({ overrideSeconds: 0 })]).toEqual([
      3_600_000, 60_000, 0,
    ])
  })

  const buffers = fc.record(
    {
      min: fc.nat(200),
      percent: fc.nat(1_000),
      max: fc.nat(200),
    },
    { requiredKeys: [] },
  )
  const scalings = fc.record(
    {
      buffer: buffers,
      scaleDown: fc.record({ delaySeconds: fc.nat(600), perMinute: fc.integer({ min: 1, max: 100 }) }),
      idleSeconds: fc.integer({ min: 1, max: 100 }),
    },
    { requiredKeys: [] },
  )
  const steps = fc.array(
    fc.record({
      ms: fc.nat(100_000),
      inUse: fc.nat(100),
      hand: fc.boolean(),
      used: fc.boolean(),
    }),
  )
  test.prop([scalings, fc.nat(50), fc.nat(100), steps])(
    'is never below zero, nor above max',
    (scaling, standingBy, more, all) => {
      const fixed = { standingBy, max: standingBy + more }
      let now = { wall: at, elapsed: 0 }
      let followed = followedFrom(0, now)
      for (const { ms, inUse, hand, used } of all) {
        now = { wall: now.wall + ms, elapsed: now.elapsed + ms }
        const demand = {
          inUse,
          idleSince: used ? undefined : 0,
          overriddenUntil: hand ? now.wall + 1 : undefined,
        }
        const one = decide({ fixed, scaling }, demand, { before: followed, now, open: undefined })
        followed = one.followed
        expect(one.standingBy).toBeGreaterThanOrEqual(0)
        expect(one.standingBy).toBeLessThanOrEqual(fixed.max)
        expect(one.nextMs === undefined || one.nextMs >= 1).toBe(true)
      }
    },
  )
})
