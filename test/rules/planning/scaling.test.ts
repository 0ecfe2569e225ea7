/** How many servers a build creates and terminates. */
import { fc, test } from '@fast-check/vitest'
import { describe, expect, it } from 'vitest'
import { emptiestNodesFirst, plan, type Plan, type PlanInput } from '../../../src/rules/planning/scaling.js'
import { frozen } from '../support.js'

interface Case {
  /** `spec.standingBy`. */
  readonly wants?: number
  readonly max?: number
  readonly pending?: number
  readonly initializing?: number
  readonly ready?: number
  readonly late?: number
  readonly withoutPort?: number
  readonly active?: number
  readonly ending?: number
  readonly callers?: number
  readonly unfit?: number
  readonly choosy?: number
  readonly protectedSurplus?: number
  readonly mayCreate?: boolean
  readonly draining?: boolean
  readonly perPass?: number
  readonly maxPending?: number
}

function inputOf({ wants = 0, max = 100, ready = 0, perPass = 20, ...rest }: Case): PlanInput {
  return frozen({
    spec: { standingBy: wants, max },
    ...{ pending: 0, initializing: 0, standingBy: ready, active: 0, ending: 0, callers: 0, protectedSurplus: 0 },
    ...{ late: 0, withoutPort: 0, unfit: 0, choosy: 0, ready },
    ...{
      mayCreate: true,
      draining: false,
      maxCreatesPerReconcile: perPass,
      maxDeletesPerReconcile: perPass,
      maxPending: 5_000,
    },
    ...rest,
  })
}

const nothing: Plan = { create: 0, destroy: { late: 0, pending: 0, initializing: 0, standingBy: 0 }, partial: false }
const creates = (create: number): Plan => ({ ...nothing, create })
const destroys = (pending: number, initializing: number, standingBy: number): Plan => ({
  ...nothing,
  destroy: { late: 0, pending, initializing, standingBy },
})
const destroysLate = (late: number): Plan => ({ ...nothing, destroy: { ...nothing.destroy, late } })
const partly = (some: Plan): Plan => ({ ...some, partial: true })

describe('plan', () => {
  it.each<[string, Case, Plan]>([
    ['a new build: creates all desired servers', { wants: 3 }, creates(3)],
    ['a settled build: does nothing', { wants: 3, ready: 3 }, nothing],
    [
      'idle servers are Pending, Initializing and StandingBy',
      { wants: 3, pending: 1, initializing: 1, ready: 1 },
      nothing,
    ],
    ['after an allocation: creates a replacement', { wants: 3, max: 10, ready: 2, active: 1 }, creates(1)],
    ['after an Active server has terminated: creates one', { wants: 2, max: 3, ready: 1, active: 1 }, creates(1)],
    ['at max: creates nothing', { wants: 2, max: 3, ready: 1, active: 2 }, nothing],
    ['near max: creates only as many as max allows', { wants: 5, max: 6, ready: 1, active: 3 }, creates(2)],
    ['Pending servers count towards max', { wants: 5, max: 5, pending: 3, active: 2 }, nothing],
    ['an unrecorded termination counts towards max', { wants: 3, max: 3, ready: 2, ending: 1 }, nothing],
    ['an unrecorded termination is not an idle server', { wants: 3, max: 4, ready: 2, ending: 1 }, creates(1)],
    ['an unrecorded termination terminates no other server', { wants: 4, max: 4, ready: 4, ending: 2 }, nothing],
    ['max 0: creates nothing for waiting callers', { wants: 0, max: 0, callers: 5 }, nothing],
    ['waiting callers count as demand', { wants: 2, initializing: 2, callers: 3 }, creates(3)],
    ['waiting callers count as demand with standingBy 0', { wants: 0, callers: 1 }, creates(1)],
    ['waiting callers do not exceed max', { wants: 2, max: 5, initializing: 2, active: 2, callers: 9 }, creates(1)],
    ['waiting callers keep servers that are otherwise surplus', { wants: 1, initializing: 3, callers: 2 }, nothing],

    ['a surplus: terminates exactly the surplus', { wants: 2, ready: 5 }, destroys(0, 0, 3)],
    [
      'a surplus: terminates Pending servers first',
      { wants: 4, pending: 2, initializing: 2, ready: 2 },
      destroys(2, 0, 0),
    ],
    ['a surplus: then Initializing', { wants: 3, pending: 2, initializing: 2, ready: 2 }, destroys(2, 1, 0)],
    ['a surplus: then StandingBy', { wants: 1, pending: 2, initializing: 2, ready: 2 }, destroys(2, 2, 1)],
    ['a ready server stays while another is not ready yet', { wants: 1, pending: 1, ready: 1 }, destroys(1, 0, 0)],
    [
      'standingBy 0: terminates all idle servers',
      { wants: 0, pending: 1, initializing: 1, ready: 1, active: 4 },
      destroys(1, 1, 1),
    ],
    [
      'max below the present count: idle servers are terminated',
      { wants: 3, max: 4, ready: 3, active: 3 },
      destroys(0, 0, 2),
    ],
    ['max below the Active count: all Active servers stay', { wants: 1, max: 2, active: 5 }, nothing],
    [
      'max below the Active count: idle servers are terminated',
      { wants: 2, max: 2, ready: 2, active: 5 },
      destroys(0, 0, 2),
    ],
    ['standingBy and max lowered together: the surplus counts once', { wants: 2, max: 2, ready: 5 }, destroys(0, 0, 3)],
    ['standingBy and max lowered together, one Active', { wants: 2, max: 3, ready: 5, active: 1 }, destroys(0, 0, 3)],
    [
      'max 0: idle servers are terminated, Active ones stay',
      { wants: 0, max: 0, pending: 2, active: 3 },
      destroys(2, 0, 0),
    ],

    ['an Unhealthy build creates nothing', { wants: 3, mayCreate: false }, nothing],
    ['an Unhealthy build still scales down', { wants: 1, ready: 3, mayCreate: false }, destroys(0, 0, 2)],
    ['an Unhealthy build needs no further reconcile', { wants: 90, callers: 9, mayCreate: false }, nothing],
    [
      'draining terminates all idle servers',
      { wants: 3, pending: 1, initializing: 1, ready: 1, draining: true },
      destroys(1, 1, 1),
    ],
    ['protected surplus servers stay', { wants: 1, initializing: 5, protectedSurplus: 3 }, destroys(0, 1, 0)],
    ['protected surplus servers are not desired servers', { wants: 1, ready: 1, protectedSurplus: 3 }, nothing],
    [
      'protected surplus servers do not exceed max',
      { wants: 1, max: 2, ready: 4, protectedSurplus: 3 },
      destroys(0, 0, 2),
    ],
    ['draining protects no surplus', { wants: 1, ready: 2, protectedSurplus: 3, draining: true }, destroys(0, 0, 2)],
    ['draining creates nothing for waiting callers', { wants: 3, callers: 3, active: 2, draining: true }, nothing],

    ['at most maxCreatesPerReconcile creations', { wants: 50 }, partly(creates(20))],
    ['at most maxPending Pending servers', { wants: 9, pending: 3, ready: 1, maxPending: 5 }, creates(2)],
    ['maxPending needs no further reconcile', { wants: 50, pending: 5, maxPending: 5 }, nothing],
    ['exactly maxCreatesPerReconcile is complete', { wants: 20 }, creates(20)],
    ['at most maxDeletesPerReconcile terminations', { wants: 0, ready: 50 }, partly(destroys(0, 0, 20))],
    [
      'the limit keeps the order of termination',
      { pending: 1, initializing: 1, ready: 9, perPass: 3 },
      partly(destroys(1, 1, 1)),
    ],
    ['a late server: creates another beside it', { wants: 2, max: 9, ready: 1, late: 1 }, creates(1)],
    ['a late server stays while its replacement starts', { wants: 2, max: 9, ready: 1, pending: 1, late: 1 }, nothing],
    [
      'a late server is terminated once its replacement stands by',
      { wants: 2, max: 9, ready: 2, late: 1 },
      destroysLate(1),
    ],
    [
      'of two late servers, one is terminated once its replacement stands by',
      { wants: 3, max: 9, ready: 2, pending: 1, late: 2 },
      destroysLate(1),
    ],
    [
      'no more servers stay late than could be of use: one is terminated when its replacement is late too',
      { wants: 1, max: 9, late: 2 },
      { ...destroysLate(1), create: 1 },
    ],
    [
      'a late server that stands by leaves its replacement as a surplus',
      { wants: 2, max: 9, ready: 2, initializing: 1 },
      destroys(0, 1, 0),
    ],
    ['a late server at max is terminated first', { wants: 2, max: 2, ready: 1, late: 1 }, destroysLate(1)],
    [
      'only as many late servers as max has no room for',
      { wants: 3, max: 4, late: 3 },
      { ...destroysLate(2), create: 1 },
    ],
    [
      'a late server stays at max while no server may be created',
      { wants: 1, max: 1, late: 1, mayCreate: false },
      nothing,
    ],
    ['a late server stays at max while another is starting', { wants: 1, max: 2, pending: 1, late: 1 }, nothing],
    [
      'a late server is terminated for a waiting caller at max',
      { wants: 0, max: 3, active: 2, late: 1, callers: 4 },
      destroysLate(1),
    ],
    [
      'a late server is terminated to free its port',
      { wants: 1, max: 9, pending: 1, late: 1, withoutPort: 1 },
      destroysLate(1),
    ],
    [
      'max below the present count: late servers are terminated before others',
      { wants: 3, max: 4, ready: 2, pending: 1, active: 1, late: 2 },
      destroysLate(2),
    ],
    ['late servers are terminated with standingBy 0', { wants: 0, late: 2 }, destroysLate(2)],
    ['draining terminates late servers', { wants: 3, late: 2, draining: true }, destroysLate(2)],
    ['an unrecorded termination of a late server counts towards max', { wants: 1, max: 1, ending: 1 }, nothing],
    ['the limit terminates late servers first', { wants: 0, ready: 3, late: 3, perPass: 2 }, partly(destroysLate(2))],
    ['late servers do not count as Pending', { wants: 3, late: 2, pending: 1, maxPending: 2 }, creates(1)],
    [
      'callers whom ready servers do not fit: creates others beside',
      { wants: 1, ready: 3, callers: 2, unfit: 2 },
      creates(2),
    ],
    ['too many misfits: terminates these', { wants: 3, ready: 6, callers: 1, unfit: 1 }, destroys(0, 0, 2)],
    [
      'misfits are surplus: keeps the server that is starting for a caller',
      { wants: 1, ready: 3, pending: 1, callers: 1, unfit: 1 },
      destroys(0, 0, 1),
    ],
    [
      'misfits are surplus: keeps the server that is starting for a caller who may retry',
      { wants: 1, ready: 3, initializing: 1, callers: 1, choosy: 1 },
      destroys(0, 0, 2),
    ],
    [
      'draining takes the place of callers',
      { ready: 1, pending: 1, callers: 1, unfit: 1, draining: true },
      destroys(1, 0, 1),
    ],
    ['the limit applies to draining', { wants: 5, ready: 5, draining: true, perPass: 2 }, partly(destroys(0, 0, 2))],
  ])('%s', (_row, numbers, expected) => {
    expect(plan(inputOf(numbers))).toStrictEqual(expected)
  })
})

const few = fc.nat({ max: 30 })
/** Any input, including more servers than `max`, and standingBy above it. */
const anyInput: fc.Arbitrary<PlanInput> = fc
  .record({
    spec: fc.record({ standingBy: few, max: fc.nat({ max: 60 }) }),
    ...{ pending: few, initializing: few, standingBy: few, active: few, callers: few, ending: fc.nat({ max: 3 }) },
    ...{ late: few, withoutPort: few, protectedSurplus: fc.nat({ max: 9 }) },
    ...{ mayCreate: fc.boolean(), draining: fc.boolean() },
    ...{ unfit: fc.constant(0), choosy: fc.constant(0), ready: few },
    maxCreatesPerReconcile: fc.integer({ min: 1, max: 25 }),
    maxDeletesPerReconcile: fc.integer({ min: 1, max: 25 }),
    maxPending: fc.constantFrom(5, 5_000),
  })
  .map(frozen)

type Idle = Omit<Plan['destroy'], 'late'>
const idleOf = ({ pending, initializing, standingBy }: Idle): number => pending + initializing + standingBy
/** Idle servers and late ones. */
const startedOf = (servers: Plan['destroy']): number => idleOf(servers) + servers.late

/** The input after a plan: terminations are recorded, and Pending servers are running. */
function settled(input: PlanInput, next: Plan): PlanInput {
  const { pending, initializing, ...rest } = applied(input, next)
  return { ...rest, pending: 0, initializing: initializing + pending, ending: 0 }
}

/** The input right after a plan, when terminations are not recorded yet. */
function applied(input: PlanInput, { create, destroy }: Plan): PlanInput {
  return {
    ...input,
    pending: input.pending - destroy.pending + create,
    initializing: input.initializing - destroy.initializing,
    standingBy: input.standingBy - destroy.standingBy,
    late: input.late - destroy.late,
    ending: input.ending + startedOf(destroy),
  }
}

const isNothing = ({ create, destroy }: Plan): boolean => create === 0 && startedOf(destroy) === 0

describe('any plan', () => {
  test.prop([anyInput])('keeps idle + Active servers within max, or reduces the excess', (input) => {
    const before = startedOf(input) + input.active
    const after = applied(input, plan(input))
    expect(startedOf(after) + input.active).toBeLessThanOrEqual(Math.max(input.spec.max, before))
    const { create } = plan(input)
    if (create > 0) expect(startedOf(after) + input.active + after.ending).toBeLessThanOrEqual(input.spec.max)
    if (create > 0) expect(after.pending).toBeLessThanOrEqual(input.maxPending)
  })

  test.prop([anyInput])('never terminates more servers in a state than exist', (input) => {
    const { create, destroy } = plan(input)
    expect(create).toBeGreaterThanOrEqual(0)
    for (const state of ['late', 'pending', 'initializing', 'standingBy'] as const) {
      expect(destroy[state]).toBeGreaterThanOrEqual(0)
      expect(destroy[state]).toBeLessThanOrEqual(input[state])
    }
  })

  test.prop([anyInput])('leaves at most as many late servers as are wanted and not standing by', (input) => {
    const all = { ...input, maxDeletesPerReconcile: 1_000 }
    const after = applied(all, plan(all))
    const wanted = input.draining ? 0 : input.spec.standingBy + input.callers + input.protectedSurplus
    expect(after.late).toBeLessThanOrEqual(Math.max(0, wanted - input.standingBy))
  })

  test.prop([anyInput])(
    'terminates a late server that could be of use only where there is no room or no port',
    (input) => {
      const { destroy } = plan(input)
      const { spec, callers, draining, active, withoutPort } = input
      const wanted = draining ? 0 : spec.standingBy + callers
      const useful = Math.min(
        input.late,
        Math.max(0, wanted + (draining ? 0 : input.protectedSurplus) - input.standingBy),
      )
      const fits = startedOf(input) + active + Math.max(0, wanted - idleOf(input)) <= spec.max
      if (fits && withoutPort === 0) expect(destroy.late).toBeLessThanOrEqual(input.late - useful)
    },
  )

  test.prop([anyInput])('never creates and terminates at once', (input) => {
    const { create, destroy } = plan(input)
    expect(create > 0 && idleOf(destroy) > 0).toBe(false)
  })

  test.prop([anyInput])('terminates Pending before Initializing before StandingBy', (input) => {
    const { destroy } = plan(input)
    if (destroy.initializing > 0) expect(destroy.pending).toBe(input.pending)
    if (destroy.standingBy > 0) expect(destroy.initializing).toBe(input.initializing)
  })

  test.prop([anyInput])('respects the limits per reconcile, and is marked partial if work is left', (input) => {
    const limited = plan(input)
    const whole = plan({ ...input, maxCreatesPerReconcile: 1_000, maxDeletesPerReconcile: 1_000 })
    expect(limited.create).toBe(Math.min(whole.create, input.maxCreatesPerReconcile))
    expect(startedOf(limited.destroy)).toBe(Math.min(startedOf(whole.destroy), input.maxDeletesPerReconcile))
    expect(limited.partial).toBe(limited.create < whole.create || startedOf(limited.destroy) < startedOf(whole.destroy))
    expect(whole.partial).toBe(false)
  })

  test.prop([anyInput])('creates nothing while mayCreate is false', (input) => {
    expect(plan({ ...input, mayCreate: false }).create).toBe(0)
    expect(plan({ ...input, draining: true }).create).toBe(0)
    const withoutLate = { ...input, late: 0 }
    expect(plan({ ...withoutLate, mayCreate: false }).destroy).toEqual(plan(withoutLate).destroy)
  })

  test.prop([anyInput])('keeps servers that callers are waiting for if max allows it', (input) => {
    const { standingBy, max } = input.spec
    const wanted = standingBy + input.callers
    const left = idleOf(applied(input, plan(input)))
    if (!input.draining && startedOf(input) + input.active <= max) {
      expect(left).toBeGreaterThanOrEqual(Math.min(idleOf(input), wanted))
    }
  })

  test.prop([anyInput])('settles at the desired count when applied repeatedly', (given) => {
    const start = { ...given, protectedSurplus: 0, withoutPort: 0 }
    let input = settled(start, { ...plan(start), ...nothing })
    let reconciles = 0
    for (let next = plan(input); !isNothing(next); next = plan(input)) {
      const after = applied(input, next)
      expect(next.partial, 'is partial exactly when another reconcile follows').toBe(!isNothing(plan(after)))
      input = settled(input, next)
      expect(++reconciles).toBeLessThanOrEqual(120)
    }
    const { spec, active, callers, draining, mayCreate } = start
    const room = Math.max(0, spec.max - active)
    const wanted = draining ? 0 : Math.min(spec.standingBy + callers, room)
    if (idleOf(start) > wanted || (mayCreate && !draining)) expect(idleOf(input)).toBe(wanted)
    else expect(idleOf(input)).toBe(idleOf(start))
    expect(input.active).toBe(active)
  })

  test.prop([anyInput, fc.integer({ min: 1, max: 30 })])(
    'never has fewer servers when one more caller waits',
    (given, more) => {
      // Late servers that the caller keeps leave more of a limited reconcile to others.
      const input = { ...given, maxDeletesPerReconcile: 1_000 }
      const now = idleOf(applied(input, plan(input)))
      const then = plan({ ...input, callers: input.callers + more })
      expect(idleOf(applied(input, then))).toBeGreaterThanOrEqual(now)
    },
  )
})

describe('callers whom no ready server fits', () => {
  const anyMisfits = fc.tuple(anyInput, few).map(([input, others]) => {
    const unfit = Math.min(input.callers, others)
    return frozen({ ...input, unfit, ready: input.standingBy, protectedSurplus: 0, withoutPort: 0, late: 0 })
  })

  test.prop([anyMisfits])('add at most one server each, and no more than exist are terminated', (input) => {
    const next = plan(input)
    const { create, destroy } = next
    expect(create > 0 && idleOf(destroy) > 0).toBe(false)
    for (const state of ['pending', 'initializing', 'standingBy'] as const) {
      expect(destroy[state]).toBeGreaterThanOrEqual(0)
      expect(destroy[state]).toBeLessThanOrEqual(input[state])
    }
    const most = input.spec.standingBy + input.callers + input.unfit
    expect(idleOf(applied(input, next))).toBeLessThanOrEqual(Math.max(most, idleOf(input)))
  })

  test.prop([anyMisfits])('have a server starting for each in the end', (given) => {
    const spec = { ...given.spec, max: 1_000 }
    let input: PlanInput = { ...given, spec, mayCreate: true, draining: false, ending: 0, maxPending: 5_000 }
    let reconciles = 0
    for (let next = plan(input); !isNothing(next); next = plan(input)) {
      const after = settled(input, next)
      input = { ...after, ready: after.standingBy }
      expect(++reconciles).toBeLessThanOrEqual(240)
    }
    expect(input.pending + input.initializing).toBeGreaterThanOrEqual(input.unfit)
  })
})

describe('the order in which idle servers are terminated', () => {
  const node = (name: string, load: number, servers: number) => ({ name, load, servers })
  const serversOn = (nodes: readonly ReturnType<typeof node>[]) =>
    frozen(nodes.map((on, index) => ({ id: `${on.name}${index}`, on })))
  const idsOf = (nodes: readonly ReturnType<typeof node>[]) =>
    emptiestNodesFirst(serversOn(nodes), ({ on }) => on).map(({ id }) => id)

  const [busy, quiet, small, large] = [node('b', 2, 3), node('q', 1, 9), node('s', 0, 2), node('l', 0, 5)]

  it.each([
    ['nodes without a session first', [busy, quiet, small], ['s2', 'q1', 'b0']],
    ['of these, the node with the fewest servers', [large, small, large, small], ['s1', 's3', 'l0', 'l2']],
    ['on the same node, in the order in which they are', [quiet, quiet, quiet], ['q0', 'q1', 'q2']],
    ['nodes that are alike, by name and one after the other', [node('y', 0, 2), node('x', 0, 2)], ['x1', 'y0']],
    ['no servers', [], []],
  ])('%s', (_, nodes, order) => {
    expect(idsOf(nodes)).toEqual(order)
  })

  test.prop([fc.array(fc.record({ at: fc.nat(4), load: few, servers: few }), { maxLength: 20 })])(
    'has every server once, and never one behind a server of a fuller node',
    (some) => {
      const nodes = some.map(({ load, servers }, at) => node(`n${at}`, load, servers))
      const servers = some.flatMap(({ at }, id) => (nodes[at] ? [{ id, on: nodes[at] }] : []))
      const order = emptiestNodesFirst(servers, ({ on }) => on)
      expect(order.map(({ id }) => id).toSorted((a, b) => a - b)).toEqual(servers.map(({ id }) => id))
      for (const [index, { on }] of order.entries()) {
        const next = order[index + 1]?.on ?? on
        expect(on.load < next.load || (on.load === next.load && on.servers <= next.servers)).toBe(true)
      }
    },
  )
})
