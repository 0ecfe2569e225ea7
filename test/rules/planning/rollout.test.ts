/** A rolling change: idle servers a few at a time, never so that a template that fails takes the build down. */
import { fc, test } from '@fast-check/vitest'
import { describe, expect, it } from 'vitest'
import { planRollout, rolloutBatch, type RolloutInput } from '../../../src/rules/planning/rollout.js'
import { templateHash } from '../../../src/rules/planning/template-hash.js'

const none = { pending: 0, initializing: 0, standingBy: 0 }
const input = (change: Partial<RolloutInput>): RolloutInput => ({
  spec: { standingBy: 8, max: 20 },
  current: none,
  outdated: { ...none, standingBy: 8 },
  active: 0,
  ending: 0,
  callers: 0,
  mayCreate: true,
  maxCreatesPerReconcile: 20,
  maxDeletesPerReconcile: 20,
  maxPending: 5_000,
  ...change,
})
const nothing = { create: 0, replace: 0, surplus: 0, partial: false }

describe('the plan of a rolling change', () => {
  it.each<[string, Partial<RolloutInput>, Partial<typeof nothing>]>([
    ['begins with a quarter of the wanted servers', {}, { create: 2 }],
    ['waits for those on the way', { current: { ...none, pending: 1, initializing: 1 } }, {}],
    [
      'lets an old one go for each new one that is ready',
      { current: { ...none, standingBy: 2 } },
      { create: 2, replace: 2 },
    ],
    ['a template that never gets ready takes no old server', { current: { ...none, initializing: 2 } }, {}],
    [
      'without room it makes room for one batch',
      { spec: { standingBy: 8, max: 10 }, active: 2 },
      { create: 0, replace: 2 },
    ],
    [
      'without room it waits for that batch',
      {
        spec: { standingBy: 8, max: 10 },
        active: 2,
        outdated: { ...none, standingBy: 6 },
        current: { ...none, initializing: 2 },
      },
      {},
    ],
    [
      'has no room while an end is not on record, and ends no other for that',
      { spec: { standingBy: 8, max: 10 }, active: 2, outdated: { ...none, standingBy: 6 }, ending: 2 },
      {},
    ],
    ['begins no more beside so many Pending ones', { maxPending: 1 }, { create: 1 }],
    ['creates what is missing at once, beyond the batch', { outdated: { ...none, standingBy: 1 } }, { create: 7 }],
    ['creates nothing while the build may not', { mayCreate: false }, {}],
    [
      'lets an old one go for each that is trusted, and begins as many beside those that are not',
      { outdated: { ...none, standingBy: 6 }, current: { ...none, initializing: 1, standingBy: 3 } },
      { create: 1, replace: 1 },
    ],
    [
      'makes no room beyond one batch',
      {
        spec: { standingBy: 8, max: 8 },
        outdated: { ...none, standingBy: 6 },
        current: { ...none, initializing: 2 },
      },
      {},
    ],
    [
      'creates anew what has crashed',
      {
        spec: { standingBy: 8, max: 8 },
        outdated: { ...none, standingBy: 4 },
        current: { ...none, initializing: 2 },
      },
      { create: 2 },
    ],
    [
      'ends the old ones that nobody wants any more, though no new one is trusted',
      { spec: { standingBy: 2, max: 20 }, current: { ...none, initializing: 1 } },
      { replace: 6 },
    ],
    ['ends the old ones first when fewer are wanted', { spec: { standingBy: 2, max: 20 } }, { replace: 6, create: 1 }],
    ['ends all that is old when no idle server is wanted', { spec: { standingBy: 0, max: 20 } }, { replace: 8 }],
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
      active: fc.nat({ max: 5 }),
      callers: fc.nat({ max: 4 }),
    })
    .map(({ standingBy, more, ...rest }) => input({ spec: { standingBy, max: standingBy + more }, ...rest }))
  const total = (idle: RolloutInput['current']) => idle.pending + idle.initializing + idle.standingBy

  test.prop([anyInput])('never creates beyond max, nor ends more than there is', (given) => {
    const { create, replace, surplus } = planRollout(given)
    const all = total(given.current) + total(given.outdated) + given.active
    if (create > 0) expect(all + create).toBeLessThanOrEqual(given.spec.max)
    expect(replace).toBeLessThanOrEqual(total(given.outdated))
    expect(surplus).toBeLessThanOrEqual(total(given.current))
    expect(Math.min(create, replace, surplus)).toBeGreaterThanOrEqual(0)
  })

  test.prop([fc.integer({ min: 1, max: 12 }), fc.nat({ max: 8 }), fc.nat({ max: 8 })])(
    'with a template that never gets ready, all but one batch of the old servers stay',
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
    'with a good template it ends with new servers only, and never has fewer ready than wanted less one batch',
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

describe('the hash of a template', () => {
  const spec = { template: { spec: { containers: [{ name: 'a', env: [] }] } }, portsToExpose: [1, 2] }

  it('is the same whatever the order of keys', () => {
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

  it('is the same without metadata and with none', () => {
    expect(templateHash({ ...spec, buildMetadata: {} })).toBe(templateHash(spec))
  })
})
