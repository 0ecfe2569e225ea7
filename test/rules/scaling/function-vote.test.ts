/** What a function of the host app asks for, whatever it returns. */
import { fc, test } from '@fast-check/vitest'
import { describe, expect, it } from 'vitest'
import { functionVote, unknownFunctionVote } from '../../../src/rules/scaling/function-vote.js'

describe('a function of the host app', () => {
  it.each<[unknown, number]>([
    [0, 0],
    [7, 7],
    [6.2, 7],
  ])('that returns %s asks for %i', (returned, standingBy) => {
    expect(functionVote('match-day', { returned }, 3)).toEqual({
      vote: { by: 'function', standingBy, reason: `function match-day asks for ${standingBy}` },
      last: standingBy,
      problem: undefined,
    })
  })

  it.each<[string, unknown, string]>([
    ['nothing', undefined, 'absent'],
    ['a number below 0', -1, '-1'],
    ['no number', NaN, 'NaN'],
    ['an infinite number', Infinity, 'Infinity'],
    ['text', '7', '"7"'],
    ['a promise', Promise.resolve(7), 'a promise'],
    ['an object', { standingBy: 7 }, '{"standingBy":7}'],
  ])('that returns %s asks for what it returned last, and says so', (_, returned, shown) => {
    const problem = `the answer must be a finite number ≥ 0, but is ${shown}`
    const { vote, last } = functionVote('match-day', { returned }, 3)
    expect([vote.standingBy, last]).toEqual([3, 3])
    expect(vote.reason).toBe(`function match-day asks for 3, as it answered last: ${problem}`)
    expect(functionVote('match-day', { returned }, undefined)).toEqual({
      vote: { by: 'function', standingBy: 0, reason: `function match-day asks for 0 until it answers: ${problem}` },
      last: undefined,
      problem,
    })
  })

  it('that throws asks for what it returned last', () => {
    expect(functionVote('match-day', { error: 'no "plan"' }, 3).vote).toEqual({
      by: 'function',
      standingBy: 3,
      reason: 'function match-day asks for 3, as it answered last: it threw "no \\"plan\\""',
    })
  })

  it('that this host does not have asks for nothing', () => {
    expect([unknownFunctionVote('match-day', []).reason, unknownFunctionVote('match-day', ['a', 'b'])]).toEqual([
      'function match-day asks for nothing: this host has no scaling policy match-day; it has none',
      {
        by: 'function',
        standingBy: 0,
        reason: 'function match-day asks for nothing: this host has no scaling policy match-day; it has a, b',
      },
    ])
  })

  test.prop([fc.array(fc.anything())])('always asks for an integer ≥ 0', (answers) => {
    let last: number | undefined
    for (const returned of answers) {
      const one = functionVote('any', { returned }, last)
      expect(Number.isInteger(one.vote.standingBy) && one.vote.standingBy >= 0).toBe(true)
      expect(one.problem === undefined || one.last === last).toBe(true)
      last = one.last
    }
  })
})
