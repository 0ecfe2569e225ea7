/** Health, counts and conditions of a build. */
import { describe, expect, it } from 'vitest'
import type { Condition } from '../../../src/rules/model/resources.js'
import { buildHealth, readyOfDesired, withCondition, withoutCondition } from '../../../src/rules/model/status.js'
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
