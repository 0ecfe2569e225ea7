/** Health, counts and conditions of a build. */
import { describe, expect, it } from 'vitest'
import type { Condition } from '../../../src/rules/model/resources.js'
import {
  buildHealth,
  type ConditionType,
  readinessOf,
  readyOfDesired,
  withCondition,
  withoutCondition,
} from '../../../src/rules/model/build-status.js'
import { aBuild, aSpec, frozen } from '../support.js'

describe('build health', () => {
  it.each([
    ['no crash', 0, 3, 'Healthy'],
    ['fewer crashes than the limit', 2, 3, 'Healthy'],
    ['as many crashes as the limit', 3, 3, 'Unhealthy'],
    ['more crashes than the limit', 9, 3, 'Unhealthy'],
    ['a limit of 1 and one crash', 1, 1, 'Unhealthy'],
    ['a limit of 1 and no crash', 0, 1, 'Healthy'],
  ] as const)('with %s', (_when, crashes, crashesToMarkUnhealthy, health) => {
    expect(buildHealth(aBuild({ crashes, spec: aSpec({ crashesToMarkUnhealthy }) }))).toBe(health)
  })

  it('is Healthy without a limit after any number of crashes', () => {
    expect(buildHealth(aBuild({ crashes: 1_000_000 }))).toBe('Healthy')
  })

  it('is Healthy again when the limit is raised or removed', () => {
    const crashes = 5
    expect(buildHealth(aBuild({ crashes, spec: aSpec({ crashesToMarkUnhealthy: 5 }) }))).toBe('Unhealthy')
    expect(buildHealth(aBuild({ crashes, spec: aSpec({ crashesToMarkUnhealthy: 6 }) }))).toBe('Healthy')
    expect(buildHealth(aBuild({ crashes, spec: aSpec() }))).toBe('Healthy')
  })
})

describe('readyOfDesired', () => {
  it.each([
    [0, 0, '0/0'],
    [2, 10, '2/10'],
    [7, 5, '7/5'],
  ])('for %i of %i desired servers is %s', (standingBy, desired, figure) => {
    expect(readyOfDesired(standingBy, desired)).toBe(figure)
  })
})

describe('readiness', () => {
  const condition = (type: ConditionType): Condition => ({ type, reason: 'quota', message: 'exceeded quota', since: 1 })
  const cases: readonly (readonly [string, number, number, readonly ConditionType[], string])[] = [
    ['all stand by', 2, 2, [], 'StandingBy'],
    ['none is wanted', 0, 0, [], 'StandingBy'],
    ['more stand by than wanted', 2, 3, [], 'StandingBy'],
    ['some are still starting', 6, 3, [], 'Starting'],
    ['a quota forbids more', 6, 3, ['CreateBlocked'], 'CreateBlocked'],
    ['they crash, and an image cannot be pulled', 6, 3, ['Crashing', 'CreateBlocked'], 'CreateBlocked'],
    ['they are late', 6, 3, ['LateServers'], 'LateServers'],
    ['one crashed, and another has taken its place', 2, 2, ['Crashing'], 'StandingBy'],
    ['a session lasts long', 2, 2, ['LongSession', 'Clamped'], 'StandingBy'],
    ['its buildID is that of another', 2, 2, ['Invalid'], 'Invalid'],
    ['it drains', 2, 2, ['Draining'], 'Draining'],
  ]
  it.each(cases)('of a build where %s', (_when, wanted, standingBy, types, reason) => {
    const found = readinessOf(aBuild({ conditions: types.map(condition) }), { wanted, standingBy })
    expect([found.ready, found.reason]).toEqual([reason === 'StandingBy', reason])
    const isCause = types.some((type) => type === reason)
    expect(found.message.includes('exceeded quota')).toBe(isCause)
  })

  it('of an Unhealthy build', () => {
    const build = aBuild({ crashes: 3, spec: aSpec({ crashesToMarkUnhealthy: 3 }) })
    expect(readinessOf(build, { wanted: 2, standingBy: 2 })).toMatchObject({ ready: false, reason: 'Unhealthy' })
  })
})

describe('conditions', () => {
  const crashing: Condition = frozen({
    type: 'Crashing',
    reason: 'NonZeroExit',
    message: 'a: exited with 1',
    since: 10,
  })
  const blocked: Condition = frozen({ type: 'CreateBlocked', reason: 'ports-exhausted', message: 'no port', since: 20 })

  it('are appended', () => {
    expect(withCondition(frozen([]), crashing)).toEqual([crashing])
    expect(withCondition(frozen([crashing]), blocked)).toEqual([crashing, blocked])
  })

  it('are returned as the same array if nothing has changed', () => {
    const both = frozen([crashing, blocked])
    expect(withCondition(both, { ...crashing, since: 99 })).toBe(both)
  })

  it('keep their timestamp while the reason stays the same', () => {
    const next: Condition = { ...crashing, message: 'b: exited with 2', since: 99 }
    expect(withCondition(frozen([crashing, blocked]), next)).toEqual([{ ...next, since: 10 }, blocked])
  })

  it('get a new timestamp when the reason changes', () => {
    const next: Condition = { ...crashing, reason: 'Silent', since: 99 }
    expect(withCondition(frozen([crashing, blocked]), next)).toEqual([next, blocked])
  })

  it('can be removed by type', () => {
    const both = frozen([crashing, blocked])
    expect(withoutCondition(both, 'Crashing')).toEqual([blocked])
    expect(withoutCondition(both, 'CreateBlocked')).toEqual([crashing])
  })

  it('are returned as the same array if there is nothing to remove', () => {
    const one = frozen([crashing])
    expect(withoutCondition(one, 'CreateBlocked')).toBe(one)
  })
})
