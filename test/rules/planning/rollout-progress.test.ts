/** Rolling updates of every small build, run until they settle: they complete, and never replace more than a batch at once. */
import { fc, test } from '@fast-check/vitest'
import { describe, expect, it } from 'vitest'
import { planRollout, rolloutBatch, type RolloutInput } from '../../../src/rules/planning/rollout.js'
import { plan } from '../../../src/rules/planning/scaling.js'
import { frozen } from '../support.js'

interface Start {
  readonly standingBy: number
  readonly max: number
  readonly active: number
  readonly callers: number
}

const noneLate = { current: 0, outdated: 0 }

/** Every build of up to 6 servers standing by, with every possible number of Active servers and waiting callers. */
const builds: readonly Start[] = upTo(0, 6).flatMap((standingBy) =>
  upTo(standingBy, 9).flatMap((max) =>
    upTo(0, max).flatMap((active) => upTo(0, 2).map((callers) => ({ standingBy, max, active, callers }))),
  ),
)

function upTo(from: number, to: number): readonly number[] {
  return Array.from({ length: to - from + 1 }, (_, i) => from + i)
}

/** The desired idle servers that max leaves room for. */
const reachable = ({ standingBy, max, active, callers }: Start) =>
  Math.max(0, Math.min(standingBy + callers, max - active))

interface Idle {
  readonly old: number
  readonly starting: number
  readonly ready: number
}

function planOf({ standingBy, max, active, callers }: Start, { old, starting, ready }: Idle) {
  return planRollout(
    frozen<RolloutInput>({
      spec: { standingBy, max },
      current: { pending: 0, initializing: starting, standingBy: ready },
      outdated: { pending: 0, initializing: 0, standingBy: old },
      ...{
        active,
        callers,
        ending: 0,
        mayCreate: true,
        withoutPort: 0,
        outdatedWithoutPort: 0,
        freedPorts: 0,
        late: noneLate,
      },
      ...{ maxCreatesPerReconcile: 20, maxDeletesPerReconcile: 20, maxPending: 5_000 },
    }),
  )
}

/** Executes plans until nothing is left to do. `becomeReady` changes the servers that were starting before each plan. */
function settledAfter(start: Start, becomeReady: boolean): Idle {
  let idle: Idle = { old: Math.min(start.standingBy, start.max - start.active), starting: 0, ready: 0 }
  for (let pass = 0; pass < 200; pass++) {
    const { create, replace, surplus } = planOf(start, idle)
    const there = idle.old + idle.starting + idle.ready + start.active
    if (create > 0 && there + create > start.max) expect.fail(`${JSON.stringify({ ...start, ...idle })} exceeds max`)
    if (create + replace + surplus === 0 && (idle.starting === 0 || !becomeReady)) return idle
    const old = idle.old - replace
    idle = becomeReady
      ? { old, starting: create, ready: idle.ready + idle.starting - surplus }
      : { old, starting: idle.starting + create - surplus, ready: 0 }
  }
  return expect.fail(`${JSON.stringify(start)} never comes to rest`)
}

describe('a rolling update', () => {
  it('ends with only new servers, as many as max allows', () => {
    const wrong = builds.filter((start) => {
      const { old, ready } = settledAfter(start, true)
      return old !== 0 || ready !== reachable(start)
    })
    expect(wrong).toEqual([])
  })

  it('replaces at most one batch if the new servers never become ready', () => {
    const wrong = builds.filter((start) => {
      const before = Math.min(start.standingBy, start.max - start.active)
      return settledAfter(start, false).old < before - rolloutBatch(reachable(start))
    })
    expect(wrong).toEqual([])
  })

  it('replaces at most one batch if the new servers keep crashing', () => {
    const wrong = builds.filter((start) => {
      const before = Math.min(start.standingBy, start.max - start.active)
      let idle: Idle = { old: before, starting: 0, ready: 0 }
      for (let pass = 0; pass < 50; pass++) {
        // After a crash, ready servers do not count as standing by.
        const { create, replace, surplus } = planOf(start, { ...idle, starting: idle.starting + idle.ready, ready: 0 })
        // Starting servers become ready, and ready ones crash.
        idle = { old: idle.old - replace, starting: create, ready: idle.starting - Math.min(idle.starting, surplus) }
      }
      return idle.old < before - rolloutBatch(reachable(start))
    })
    expect(wrong).toEqual([])
  })

  describe('with a limited number of ports', () => {
    /** Executes plans with `ports` for idle servers, of which each new server holds one from its start. */
    function outcome(start: Start, ports: number, becomesReady: boolean) {
      const { standingBy, active } = start
      const max = start.max + 4
      let [old, waiting, starting, ready, freed] = [Math.min(standingBy, max - active, ports), 0, 0, 0, 0]
      const before = old
      let least = old
      for (let pass = 0; pass < 200 && old > 0; pass++) {
        const { create, replace, portsToFree, surplus } = planRollout(
          frozen<RolloutInput>({
            late: noneLate,
            spec: { standingBy, max },
            current: { pending: waiting, initializing: starting, standingBy: ready },
            outdated: { pending: 0, initializing: 0, standingBy: old },
            ...{ active, callers: start.callers, ending: 0, mayCreate: true, withoutPort: waiting },
            ...{ outdatedWithoutPort: 0, freedPorts: freed },
            ...{ maxCreatesPerReconcile: 20, maxDeletesPerReconcile: 20, maxPending: 5_000 },
          }),
        )
        old -= replace
        freed += portsToFree
        waiting = Math.max(0, waiting + create - surplus)
        least = Math.min(least, old + ready)
        if (becomesReady) [ready, starting] = [ready + starting, 0]
        const placed = Math.min(waiting, ports - old - starting - ready)
        ;[waiting, starting, freed] = [waiting - placed, starting + placed, Math.max(0, freed - placed)]
      }
      return { old, lost: before - least }
    }

    const limited = builds.flatMap((start) => upTo(1, start.standingBy).map((ports) => ({ start, ports })))

    it('ends with only new servers, and never gives up more than one batch', () => {
      const wrong = limited.filter(({ start, ports }) => {
        const { old, lost } = outcome(start, ports, true)
        return old > 0 || lost > rolloutBatch(reachable({ ...start, max: start.max + 4 }))
      })
      expect(wrong).toEqual([])
    })

    it('gives up at most one batch if the new servers never become ready', () => {
      const wrong = limited.filter(
        ({ start, ports }) =>
          outcome(start, ports, false).lost > rolloutBatch(reachable({ ...start, max: start.max + 4 })),
      )
      expect(wrong).toEqual([])
    })
  })

  const few = fc.nat({ max: 8 })
  const idle = fc.record({ pending: few, initializing: few, standingBy: few })
  const anyInput = fc.record({
    spec: fc.record({ standingBy: few, max: fc.nat({ max: 20 }) }),
    ...{ current: idle, outdated: idle, active: few, ending: few, callers: few },
    ...{ withoutPort: few, outdatedWithoutPort: few, freedPorts: few },
    late: fc.record({ current: few, outdated: few }),
    mayCreate: fc.boolean(),
    ...{
      maxCreatesPerReconcile: fc.integer({ min: 1, max: 9 }),
      maxDeletesPerReconcile: fc.integer({ min: 1, max: 9 }),
    },
    maxPending: fc.constantFrom(5, 5_000),
  })

  test.prop([anyInput])('plans the same as plain scaling once complete', (input) => {
    const over = frozen({ ...input, outdated: { pending: 0, initializing: 0, standingBy: 0 }, late: noneLate })
    const more = { late: 0, protectedSurplus: 0, draining: false, unfit: 0, choosy: 0, ready: 0 }
    const { create, destroy, partial } = plan({ ...over, ...over.current, ...more })
    const surplus = destroy.pending + destroy.initializing + destroy.standingBy
    expect(planRollout(over)).toStrictEqual({ create, late: 0, replace: 0, portsToFree: 0, surplus, partial })
  })

  test.prop([anyInput])('respects max and the limits per reconcile from any starting state', (input) => {
    const { create, late, replace, surplus } = planRollout(frozen(input))
    const sum = (counts: RolloutInput['current']) => counts.pending + counts.initializing + counts.standingBy
    const isLate = input.late.current + input.late.outdated
    const there = sum(input.current) + sum(input.outdated) + isLate + input.active
    expect(late).toBeLessThanOrEqual(isLate)
    if (create > 0) expect(there + create).toBeLessThanOrEqual(input.spec.max)
    if (!input.mayCreate) expect(create).toBe(0)
    expect([create <= input.maxCreatesPerReconcile, late + replace + surplus <= input.maxDeletesPerReconcile]).toEqual([
      true,
      true,
    ])
    expect([replace <= sum(input.outdated), surplus <= sum(input.current)]).toEqual([true, true])
    expect(Math.min(create, replace, surplus)).toBeGreaterThanOrEqual(0)
    // Old servers are terminated first.
    if (surplus > 0 && sum(input.current) <= input.spec.standingBy) expect(replace).toBe(sum(input.outdated))
  })
})
