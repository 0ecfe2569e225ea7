/** What a game with several sessions knows of them, whatever answers it gets. */
import { describe, expect, it } from 'vitest'
import { afterAnswer, afterOwnEnd, noOwnSessions, reportOf } from '../../../src/rules/game/own-sessions.js'

const listed = (...numbers: readonly number[]) =>
  numbers.map((number) => ({ sessionId: `s${number}`, initialPlayers: [], number }))
const after = (...answers: readonly (readonly number[])[]) =>
  answers.reduce((own, numbers) => afterAnswer(own, listed(...numbers)).own, noOwnSessions)
const numbers = (sessions: readonly { readonly number: number }[]) => sessions.map(({ number }) => number)

describe('the sessions of a game', () => {
  it('begin once, in their order', () => {
    const { begun, own } = afterAnswer(noOwnSessions, listed(1, 2))
    expect(numbers(begun)).toEqual([1, 2])
    const next = afterAnswer(own, listed(1, 2, 4))
    expect([numbers(next.begun), numbers(next.own.running)]).toEqual([[4], [1, 2, 4]])
    expect(afterAnswer(next.own, listed(1, 2, 4)).begun).toEqual([])
  })

  it('go on although an answer does not list them', () => {
    expect(numbers(after([1, 2], [2]).running)).toEqual([1, 2])
  })

  it('are reported as ended until the fleet lists them no longer, and the last one always', () => {
    let own = afterOwnEnd(afterOwnEnd(after([1, 2, 3]), 3), 1)
    expect(numbers(reportOf(own).ended)).toEqual([3, 1])
    own = afterAnswer(own, listed(1, 2, 3)).own
    expect([numbers(own.running), numbers(own.ended)]).toEqual([[2], [3, 1]])
    own = afterAnswer(own, listed(1, 2)).own
    expect(numbers(own.ended)).toEqual([3, 1])
    own = afterAnswer(own, listed(2)).own
    expect(numbers(own.ended)).toEqual([3])
  })

  it('do not begin again if another host lists them, and are reported as ended again', () => {
    const own = afterAnswer(afterOwnEnd(afterOwnEnd(after([1, 2, 3]), 1), 2), listed(3)).own
    expect(numbers(own.ended)).toEqual([2])
    const again = afterAnswer(own, listed(1, 2, 3))
    expect([again.begun, numbers(again.own.ended)]).toEqual([[], [2, 1]])
  })

  it('are asked to end once', () => {
    const asked = listed(1, 2).map((one) => (one.number === 1 ? { ...one, ending: true as const } : one))
    const first = afterAnswer(after([1, 2]), asked)
    expect(numbers(first.ending)).toEqual([1])
    expect(afterAnswer(first.own, asked).ending).toEqual([])
    expect(numbers(afterAnswer(noOwnSessions, asked).ending)).toEqual([1])
  })

  it('end once', () => {
    const own = afterOwnEnd(after([1]), 1)
    expect(afterOwnEnd(own, 1)).toBe(own)
  })
})
