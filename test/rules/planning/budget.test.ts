/** How a budget is shared among builds. */
import { fc, test } from '@fast-check/vitest'
import { describe, expect, it } from 'vitest'
import {
  type Amounts,
  type BudgetClaim,
  fitting,
  noAmounts,
  resources,
  shareBudget,
  sizeOf,
  without,
} from '../../../src/rules/planning/budget.js'
import { frozen } from '../support.js'

interface Case {
  readonly wants: number
  readonly inUse?: number
  readonly guaranteed?: number
  readonly priority?: number
  readonly cpu?: number
}

const unlimited: Amounts = { servers: Infinity, cpu: Infinity, memory: Infinity }

function claimsOf(cases: Readonly<Record<string, Case>>): readonly BudgetClaim[] {
  return frozen(
    Object.entries(cases).map(([key, { wants, inUse = 0, guaranteed = 0, priority = 0, cpu = 0 }]) => ({
      ...{ key, wanted: Math.max(wants, inUse), inUse, guaranteed, priority },
      size: { servers: 1, cpu, memory: 0 },
    })),
  )
}

function shared(budget: Partial<Amounts>, cases: Readonly<Record<string, Case>>): Readonly<Record<string, number>> {
  const shares = shareBudget({ ...unlimited, ...budget }, claimsOf(cases))
  return Object.fromEntries([...shares].map(([key, { servers }]) => [key, servers]))
}

describe('a budget of servers', () => {
  it.each<[string, number, Record<string, Case>, Record<string, number>]>([
    ['gives each build what it wants while there is enough', 10, { a: { wants: 3 }, b: { wants: 7 } }, { a: 3, b: 7 }],
    ['is shared equally', 10, { a: { wants: 9 }, b: { wants: 9 } }, { a: 5, b: 5 }],
    ['gives one that is left over to the first by name', 5, { b: { wants: 9 }, a: { wants: 9 } }, { a: 3, b: 2 }],
    [
      'gives what one build does not want to the others',
      12,
      { a: { wants: 2 }, b: { wants: 9 }, c: { wants: 9 } },
      { a: 2, b: 5, c: 5 },
    ],
    ['goes to the highest priority first', 10, { a: { wants: 9 }, b: { wants: 9, priority: 1 } }, { a: 1, b: 9 }],
    ['knows negative priorities', 10, { a: { wants: 9, priority: -5 }, b: { wants: 9 } }, { a: 1, b: 9 }],
    [
      'keeps servers in use, whatever the priority',
      10,
      { a: { wants: 9, inUse: 6 }, b: { wants: 9, priority: 1 } },
      { a: 6, b: 4 },
    ],
    [
      'keeps servers in use even if they exceed it, and gives nothing else',
      5,
      { a: { wants: 9, inUse: 7 }, b: { wants: 2, priority: 1 } },
      { a: 7, b: 0 },
    ],
    [
      'counts servers in use to the equal part',
      10,
      { a: { wants: 9, inUse: 7 }, b: { wants: 9 }, c: { wants: 9 } },
      { a: 7, b: 2, c: 1 },
    ],
    [
      'gives the guaranteed part before any priority',
      10,
      { a: { wants: 9, guaranteed: 4 }, b: { wants: 20, priority: 9 } },
      { a: 4, b: 6 },
    ],
    [
      'reserves the guaranteed part of a build that does not use it',
      10,
      { a: { wants: 0, guaranteed: 4 }, b: { wants: 20, priority: 9 } },
      { a: 0, b: 6 },
    ],
    [
      'counts the guaranteed part to the equal part',
      10,
      { a: { wants: 9, guaranteed: 2 }, b: { wants: 9 } },
      { a: 5, b: 5 },
    ],
    [
      'cannot give a guaranteed part while others have matches there',
      10,
      { a: { wants: 5, guaranteed: 5 }, b: { wants: 9, inUse: 8 } },
      { a: 2, b: 8 },
    ],
    [
      'that is smaller than the guaranteed parts serves them by priority, then by name',
      10,
      {
        a: { wants: 9, guaranteed: 4 },
        b: { wants: 9, guaranteed: 4 },
        c: { wants: 9, guaranteed: 4, priority: 1 },
      },
      { a: 4, b: 2, c: 4 },
    ],
  ])('%s', (_, servers, cases, expected) => {
    expect(shared({ servers }, cases)).toEqual(expected)
  })

  it('says how much of a guaranteed part it has room for', () => {
    const shares = shareBudget(
      { ...unlimited, servers: 5 },
      claimsOf({ a: { wants: 0, guaranteed: 4 }, b: { wants: 1, guaranteed: 4 } }),
    )
    expect([...shares]).toEqual([
      ['a', { servers: 0, guaranteed: 4 }],
      ['b', { servers: 1, guaranteed: 1 }],
    ])
  })
})

describe('a budget of CPU', () => {
  it.each<[string, number, Record<string, Case>, Record<string, number>]>([
    [
      'counts what a server requests',
      4_000,
      { a: { wants: 9, cpu: 1_000 }, b: { wants: 9, cpu: 1_000 } },
      { a: 2, b: 2 },
    ],
    [
      'gives the rest to smaller servers',
      4_500,
      { a: { wants: 9, cpu: 2_000 }, b: { wants: 9, cpu: 250 } },
      { a: 2, b: 2 },
    ],
    [
      'gives equally many servers, and then to those that still fit',
      5_000,
      { a: { wants: 9, cpu: 2_000 }, b: { wants: 9, cpu: 500 } },
      { a: 2, b: 2 },
    ],
    [
      'does not limit servers that request none',
      1_000,
      { a: { wants: 50 }, b: { wants: 9, cpu: 500 } },
      { a: 50, b: 2 },
    ],
  ])('%s', (_, cpu, cases, expected) => {
    expect(shared({ cpu }, cases)).toEqual(expected)
  })

  it('counts the requests of all containers of a template', () => {
    const container = (requests: object) => ({ name: 'x', resources: { requests } })
    const containers = [container({ cpu: '1500m', memory: '1Gi' }), container({ cpu: 0.25, memory: '512Mi' }), {}]
    expect(sizeOf({ spec: { containers } })).toEqual({ servers: 1, cpu: 1_750, memory: 1.5 * 2 ** 30 })
    expect(sizeOf({ spec: { containers: [{ resources: { limits: { cpu: 2 }, requests: null } }] } })).toEqual({
      ...{ servers: 1, cpu: 0, memory: 0 },
    })
  })
})

const anyClaim = fc
  .record({
    size: fc.record({ servers: fc.constant(1), cpu: fc.nat(8), memory: fc.nat(8) }),
    inUse: fc.oneof(fc.constant(0), fc.nat(6)),
    idle: fc.nat(12),
    guaranteed: fc.oneof(fc.constant(0), fc.nat(8)),
    priority: fc.integer({ min: -1, max: 1 }),
  })
  .map(({ idle, ...claim }) => ({ ...claim, wanted: claim.inUse + idle }))
const anyClaims = fc
  .array(anyClaim, { maxLength: 8 })
  .map((claims): readonly BudgetClaim[] => frozen(claims.map((claim, index) => ({ ...claim, key: `build-${index}` }))))
const anyLimit = fc.oneof(fc.nat(40), fc.constant(Infinity))
const anyBudget = fc.record({ servers: anyLimit, cpu: anyLimit, memory: anyLimit })

describe('any budget', () => {
  const sumOf = (claims: readonly BudgetClaim[], count: (claim: BudgetClaim) => number) =>
    claims.reduce((sum, claim) => without(sum, claim.size, -count(claim)), noAmounts)

  test.prop([anyBudget, anyClaims])('is exceeded only by servers in use', (budget, claims) => {
    const shares = shareBudget(budget, claims)
    const given = sumOf(claims, ({ key }) => shares.get(key)?.servers ?? 0)
    const used = sumOf(claims, ({ inUse }) => inUse)
    for (const resource of resources)
      expect(given[resource]).toBeLessThanOrEqual(Math.max(budget[resource], used[resource]))
  })

  test.prop([anyBudget, anyClaims])(
    'gives each build what it has in use, and no more than it wants',
    (budget, claims) => {
      const shares = shareBudget(budget, claims)
      for (const { key, inUse, wanted } of claims) {
        expect(shares.get(key)?.servers).toBeGreaterThanOrEqual(inUse)
        expect(shares.get(key)?.servers).toBeLessThanOrEqual(wanted)
      }
    },
  )

  test.prop([anyBudget, anyClaims])(
    'lets nobody take a guaranteed part, except with servers in use',
    (budget, claims) => {
      const shares = shareBudget(budget, claims)
      const reserved = sumOf(claims, ({ key, inUse }) => {
        const { servers, guaranteed } = shares.get(key) ?? { servers: 0, guaranteed: 0 }
        return Math.max(servers, guaranteed, inUse)
      })
      const kept = sumOf(claims, ({ key, inUse }) => Math.max(inUse, shares.get(key)?.guaranteed ?? 0))
      for (const resource of resources)
        expect(reserved[resource]).toBeLessThanOrEqual(Math.max(budget[resource], kept[resource]))
    },
  )

  test.prop([anyBudget, anyClaims])('leaves nothing that a build wants and that is not reserved', (budget, claims) => {
    const shares = shareBudget(budget, claims)
    const taken = sumOf(claims, ({ key }) => {
      const { servers, guaranteed } = shares.get(key) ?? { servers: 0, guaranteed: 0 }
      return Math.max(servers, guaranteed)
    })
    const left = Object.fromEntries(resources.map((resource) => [resource, budget[resource] - taken[resource]]))
    const free = { ...noAmounts, ...left }
    for (const { key, size, wanted } of claims)
      if ((shares.get(key)?.servers ?? 0) < wanted) expect(fitting(free, size)).toBe(0)
  })

  test.prop([anyBudget, anyClaims])('gives the same whatever the order of the builds', (budget, claims) => {
    const there = shareBudget(budget, claims)
    const back = shareBudget(budget, claims.toReversed())
    for (const { key } of claims) expect(back.get(key)).toEqual(there.get(key))
  })

  test.prop([fc.nat(40), anyClaims])(
    'of servers: of two builds of a priority, none has two more than one that wants more',
    (servers, claims) => {
      const shares = shareBudget({ ...unlimited, servers }, claims)
      const of = ({ key }: BudgetClaim) => shares.get(key)?.servers ?? 0
      for (const a of claims) {
        for (const b of claims) {
          if (a.priority !== b.priority || of(b) >= b.wanted) continue
          const floor = Math.max(a.inUse, shares.get(a.key)?.guaranteed ?? 0)
          expect(of(a)).toBeLessThanOrEqual(Math.max(floor, of(b) + 1))
        }
      }
    },
  )

  test.prop([fc.nat(40), anyClaims])(
    'of servers: a build gets more than its own only if those before it have what they want',
    (servers, claims) => {
      const shares = shareBudget({ ...unlimited, servers }, claims)
      const of = ({ key }: BudgetClaim) => shares.get(key)?.servers ?? 0
      for (const later of claims) {
        if (of(later) <= Math.max(later.inUse, shares.get(later.key)?.guaranteed ?? 0)) continue
        for (const first of claims) if (first.priority > later.priority) expect(of(first)).toBe(first.wanted)
      }
    },
  )
})
