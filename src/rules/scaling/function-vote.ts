/** What a function of the host app asks for, as a scaling policy. Pure. */
import { isPromise } from '../model/values.js'
import { shown } from '../validation/problem.js'
import type { Vote } from './policies.js'

/** What calling the function led to. `error`: the message of what it threw. */
export type FunctionResult = { readonly returned: unknown } | { readonly error: string }

export interface FunctionVote {
  readonly vote: Vote
  /** Its last answer that is one. */
  readonly last: number | undefined
  /** What was wrong with this one. */
  readonly problem: string | undefined
}

/** The number that it returned. If it returned none, its last one, or else 0. */
export function functionVote(name: string, result: FunctionResult, last: number | undefined): FunctionVote {
  const answer = 'error' in result ? { problem: `it threw ${JSON.stringify(result.error)}` } : numberIn(result.returned)
  if ('standingBy' in answer) {
    const { standingBy } = answer
    return {
      vote: { by: 'function', standingBy, reason: `function ${name} asks for ${standingBy}` },
      last: standingBy,
      problem: undefined,
    }
  }
  const { problem } = answer
  const held = last === undefined ? 'asks for 0 until it answers' : `asks for ${last}, as it answered last`
  return {
    vote: { by: 'function', standingBy: last ?? 0, reason: `function ${name} ${held}: ${problem}` },
    last,
    problem,
  }
}

/** This host has other functions. */
export function unknownFunctionVote(name: string, known: readonly string[]): Vote {
  const others = known.length === 0 ? 'it has none' : `it has ${known.join(', ')}`
  const reason = `function ${name} asks for nothing: this host has no scaling policy ${name}; ${others}`
  return { by: 'function', standingBy: 0, reason }
}

/** The answer of a policy outside the fleet, rounded up, or what is wrong with it. */
export function numberIn(answer: unknown): { readonly standingBy: number } | { readonly problem: string } {
  if (typeof answer === 'number' && Number.isFinite(answer) && answer >= 0) return { standingBy: Math.ceil(answer) }
  return {
    problem: `the answer must be a finite number ≥ 0, but is ${isPromise(answer) ? 'a promise' : shown(answer)}`,
  }
}
