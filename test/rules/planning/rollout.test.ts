/** Rolling updates: one batch of idle servers at a time, so that a bad template never takes a build down. */
import { fc, test } from '@fast-check/vitest'
import { describe, expect, it } from 'vitest'
import { planRollout, rolloutBatch, type RolloutInput, templateHash } from '../../../src/rules/planning/rollout.js'

const none = { pending: 0, initializing: 0, standingBy: 0 }
const input = (change: Partial<RolloutInput>): RolloutInput => ({
  spec: { standingBy: 8, max: 20 },
  current: none,
  outdated: { ...none, standingBy: 8 },
  late: { current: 0, outdated: 0 },
  withoutPort: 0,
  outdatedWithoutPort: 0,
  freedPorts: 0,
  active: 0,
  ending: 0,
  callers: 0,
  mayCreate: true,
  maxCreatesPerReconcile: 20,
  maxDeletesPerReconcile: 20,
  maxPending: 5_000,
  ...change,
})
const nothing = { create: 0, late: 0, replace: 0, portsToFree: 0, surplus: 0, partial: false }

describe('planRollout', () => {
  it.each<[string, Partial<RolloutInput>, Partial<typeof nothing>]>([
    ['starts with a quarter of the desired servers', {}, { create: 2 }],
    ['waits for servers that are starting', { current: { ...none, pending: 1, initializing: 1 } }, {}],
    [
      'replaces an old server for each new one that is ready',
      { current: { ...none, standingBy: 2 } },
      { create: 2, replace: 2 },
    ],
    ['replaces no old server while no new one is ready', { current: { ...none, initializing: 2 } }, {}],
    [
      'terminates one batch first at max',
      { spec: { standingBy: 8, max: 10 }, active: 2 },
      { replace: 2, portsToFree: 2 },
    ],
    [
      'waits for that batch at max',
      {
        spec: { standingBy: 8, max: 10 },
        active: 2,
        outdated: { ...none, standingBy: 6 },
        current: { ...none, initializing: 2 },
      },
      {},
    ],
    [
      'counts unrecorded terminations towards max, and terminates no other server for them',
      { spec: { standingBy: 8, max: 10 }, active: 2, outdated: { ...none, standingBy: 6 }, ending: 2 },
      {},
    ],
    ['creates no more than maxPending', { maxPending: 1 }, { create: 1 }],
    ['creates missing servers at once, beyond the batch', { outdated: { ...none, standingBy: 1 } }, { create: 7 }],
    ['creates nothing while mayCreate is false', { mayCreate: false }, {}],
    [
      'replaces an old server for each ready one, and creates as many while others are starting',
      { outdated: { ...none, standingBy: 6 }, current: { ...none, initializing: 1, standingBy: 3 } },
      { create: 1, replace: 1 },
    ],
    [
      'never terminates more than one batch at max',
      {
        spec: { standingBy: 8, max: 8 },
        outdated: { ...none, standingBy: 6 },
        current: { ...none, initializing: 2 },
      },
      {},
    ],
    [
      'recreates crashed servers',
      {
        spec: { standingBy: 8, max: 8 },
        outdated: { ...none, standingBy: 4 },
        current: { ...none, initializing: 2 },
      },
      { create: 2 },
    ],
    [
      'terminates surplus old servers even when no new one is ready',
      { spec: { standingBy: 2, max: 20 }, current: { ...none, initializing: 1 } },
      { replace: 6 },
    ],
    [
      'terminates old servers first when standingBy is lowered',
      { spec: { standingBy: 2, max: 20 } },
      { replace: 6, create: 1 },
    ],
    [
      'replaces old servers to free their ports for servers that have none',
      { current: { ...none, pending: 2 }, withoutPort: 2 },
      { replace: 2, portsToFree: 2 },
    ],
    [
      'counts the ports of old servers that it replaces to make room, but not those of old ones that have none',
      {
        spec: { standingBy: 5, max: 7 },
        outdated: { ...none, pending: 1, standingBy: 4 },
        ...{ outdatedWithoutPort: 1, active: 2 },
      },
      { replace: 2, portsToFree: 1 },
    ],
    [
      'frees no ports while no server may be created',
      { current: { ...none, pending: 2 }, withoutPort: 2, mayCreate: false },
      {},
    ],
    [
      'frees no further port until a new server has taken each freed one',
      { current: { ...none, pending: 2 }, withoutPort: 2, outdated: { ...none, standingBy: 6 }, freedPorts: 2 },
      {},
    ],
    [
      'frees no further port while the servers that took the freed ones are starting',
      { current: { ...none, pending: 1, initializing: 2 }, withoutPort: 1, outdated: { ...none, standingBy: 6 } },
      {},
    ],
    [
      'frees the next ports once these servers are ready',
      {
        current: { ...none, pending: 2, standingBy: 2 },
        withoutPort: 2,
        outdated: { ...none, standingBy: 6 },
      },
      { replace: 2, portsToFree: 2 },
    ],
    [
      'frees one batch of ports when matches hold so many that servers are missing',
      { current: { ...none, pending: 5 }, withoutPort: 5, outdated: { ...none, standingBy: 3 }, active: 5 },
      { replace: 2, portsToFree: 2 },
    ],
    [
      'frees no more ports than maxDeletesPerReconcile allows',
      { current: { ...none, pending: 2 }, withoutPort: 2, maxDeletesPerReconcile: 1 },
      { replace: 1, portsToFree: 1, partial: true },
    ],
    [
      'starts another batch beside new servers that are late',
      { current: none, late: { current: 2, outdated: 0 } },
      { create: 2 },
    ],
    [
      'terminates the late new servers of all but one batch',
      { current: { ...none, initializing: 2 }, late: { current: 3, outdated: 0 } },
      { late: 1 },
    ],
    [
      'terminates late new servers, and no further old ones, at max',
      { spec: { standingBy: 8, max: 8 }, outdated: { ...none, standingBy: 6 }, late: { current: 2, outdated: 0 } },
      { late: 2 },
    ],
    [
      'terminates late new servers, and no further old ones, where there is no free port',
      {
        current: { ...none, pending: 2 },
        withoutPort: 2,
        outdated: { ...none, standingBy: 6 },
        late: { current: 2, outdated: 0 },
      },
      { late: 2 },
    ],
    [
      'terminates late old servers at once',
      { outdated: { ...none, standingBy: 6 }, late: { current: 0, outdated: 2 } },
      { late: 2, create: 2 },
    ],
    [
      'terminates late new servers once the others are ready',
      { outdated: none, current: { ...none, standingBy: 8 }, late: { current: 1, outdated: 0 } },
      { late: 1 },
    ],
    ['terminates all old servers when standingBy is 0', { spec: { standingBy: 0, max: 20 } }, { replace: 8 }],
  ])('%s', (_, change, expected) => {
    expect(planRollout(input(change))).toEqual({ ...nothing, ...expected })
  })

  const counts = fc.record({
    pending: fc.nat({ max: 5 }),
    initializing: fc.nat({ max: 5 }),
    standingBy: fc.nat({ max: 10 }),
  })
  const anyInput = fc
    .record({
      standingBy: fc.nat({ max: 12 }),
      more: fc.nat({ max: 8 }),
      current: counts,
      outdated: counts,
      late: fc.record({ current: fc.nat({ max: 5 }), outdated: fc.nat({ max: 5 }) }),
      withoutPort: fc.nat({ max: 3 }),
      active: fc.nat({ max: 5 }),
      callers: fc.nat({ max: 4 }),
    })
    .map(({ standingBy, more, ...rest }) => input({ spec: { standingBy, max: standingBy + more }, ...rest }))
  const total = (idle: RolloutInput['current']) => idle.pending + idle.initializing + idle.standingBy

  test.prop([anyInput])('never exceeds max, and never terminates more servers than exist', (given) => {
    const { create, late, replace, surplus } = planRollout(given)
    const isLate = given.late.current + given.late.outdated
    const all = total(given.current) + total(given.outdated) + isLate + given.active
    expect(late).toBeLessThanOrEqual(isLate)
    if (create > 0) expect(all + create).toBeLessThanOrEqual(given.spec.max)
    expect(replace).toBeLessThanOrEqual(total(given.outdated))
    expect(surplus).toBeLessThanOrEqual(total(given.current))
    expect(Math.min(create, replace, surplus)).toBeGreaterThanOrEqual(0)
  })

  test.prop([fc.integer({ min: 1, max: 12 }), fc.nat({ max: 8 }), fc.nat({ max: 8 })])(
    'keeps all but one batch of the old servers when the new template never gets ready',
    (standingBy, spare, active) => {
      let old = standingBy
      let updated = 0
      const max = standingBy + active + spare
      for (let pass = 0; pass < 50 && old > 0; pass++) {
        const state = { current: { ...none, initializing: updated }, outdated: { ...none, standingBy: old }, active }
        const { create, replace, surplus } = planRollout(input({ spec: { standingBy, max }, ...state }))
        updated += create - surplus
        old -= replace
      }
      expect(old).toBeGreaterThanOrEqual(standingBy - rolloutBatch(standingBy))
    },
  )

  test.prop([fc.integer({ min: 1, max: 12 }), fc.nat({ max: 8 }), fc.nat({ max: 8 })])(
    'ends with only new servers, and never has more than one batch fewer ready than desired',
    (standingBy, spare, active) => {
      let old = standingBy
      let starting = 0
      let ready = 0
      const max = standingBy + active + spare
      for (let pass = 0; pass < 200 && old > 0; pass++) {
        const state = {
          current: { pending: 0, initializing: starting, standingBy: ready },
          outdated: { ...none, standingBy: old },
          active,
        }
        const { create, replace } = planRollout(input({ spec: { standingBy, max }, ...state }))
        ready += starting
        starting = create
        old -= replace
        expect(old + ready).toBeGreaterThanOrEqual(standingBy - rolloutBatch(standingBy))
      }
      expect(old).toBe(0)
    },
  )
})

describe('templateHash', () => {
  const spec = { template: { spec: { containers: [{ name: 'a', env: [] }] } }, portsToExpose: [1, 2] }

  it('does not depend on the order of keys', () => {
    const turned = { portsToExpose: [1, 2], template: { spec: { containers: [{ env: [], name: 'a' }] } } }
    expect(templateHash(turned)).toBe(templateHash(spec))
  })

  it.each([
    ['the template', { ...spec, template: { spec: { containers: [{ name: 'b', env: [] }] } } }],
    ['a port', { ...spec, portsToExpose: [1, 3] }],
    ['the order of ports', { ...spec, portsToExpose: [2, 1] }],
    ['metadata', { ...spec, buildMetadata: { map: 'dust' } }],
  ])('changes with %s', (_, changed) => {
    expect(templateHash(changed)).not.toBe(templateHash(spec))
  })

  it('is the same without buildMetadata and with empty buildMetadata', () => {
    expect(templateHash({ ...spec, buildMetadata: {} })).toBe(templateHash(spec))
  })
})
