/** Calls the functions of the host app that builds name as a scaling policy. Whatever they do, the decision goes on. Synchronous. */
import { messageOf } from '../../contracts/errors.js'
import type { ScalingDemand, ScalingFunction, ScalingFunctionInput } from '../../contracts/scaling-demand.js'
import { isError, isPromise } from '../../rules/model/values.js'
import { type FunctionResult, functionVote, unknownFunctionVote } from '../../rules/scaling/function-vote.js'
import type { History } from '../../rules/scaling/forecast.js'
import type { Vote } from '../../rules/scaling/policies.js'
import { shown } from '../../rules/validation/problem.js'
import type { EngineContext } from '../context.js'
import type { BuildEntry } from '../state/entries.js'

/** How many different problems are logged, since the text of an error may be another each time. */
const maxLogged = 100

export class FunctionPolicies {
  readonly #ctx: Pick<EngineContext, 'clock' | 'logger'>
  readonly #functions: ReadonlyMap<string, ScalingFunction>
  readonly #answers = new WeakMap<BuildEntry, { readonly name: string; readonly last: number | undefined }>()
  readonly #logged = new Set<string>()

  constructor(ctx: Pick<EngineContext, 'clock' | 'logger'>, functions: ReadonlyMap<string, ScalingFunction>) {
    this.#ctx = ctx
    this.#functions = functions
  }

  vote(build: BuildEntry, name: string, demand: ScalingDemand, history: History): Vote {
    const decide = this.#functions.get(name)
    if (!decide) return unknownFunctionVote(name, [...this.#functions.keys()])
    const before = this.#answers.get(build)
    const now = new Date(this.#ctx.clock.now())
    const result = called(decide, { ...demand, now, history: (at) => history.at(at.getTime()) })
    const { vote, last, problem } = functionVote(name, result, before?.name === name ? before.last : undefined)
    this.#answers.set(build, { name, last })
    if (problem !== undefined) this.#log(name, problem)
    return vote
  }

  #log(name: string, problem: string): void {
    const key = `${name}: ${problem}`
    if (this.#logged.has(key) || this.#logged.size >= maxLogged) return
    this.#logged.add(key)
    this.#ctx.logger.warn({ function: name, reason: problem }, 'scaling function failed; its last answer holds')
  }
}

function called(decide: ScalingFunction, input: ScalingFunctionInput): FunctionResult {
  try {
    const returned: unknown = decide(input)
    // An async function is a mistake, which is reported. Its rejection must not end the process.
    if (isPromise(returned)) void Promise.resolve(returned).catch(() => undefined)
    return { returned }
  } catch (error) {
    return { error: isError(error) ? messageOf(error) : shown(error) }
  }
}
