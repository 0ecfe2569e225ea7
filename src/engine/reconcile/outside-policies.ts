/** The scaling policies that are outside the fleet, functions of the host app and webhooks: what they hear of a build, and what they ask for. */
import type { ScalingDemand, ScalingFunction } from '../../contracts/scaling-demand.js'
import type { History } from '../../rules/scaling/forecast.js'
import type { Decision, Now, ScalingSpec, Vote } from '../../rules/scaling/policies.js'
import { type EngineContext, refOf } from '../context.js'
import type { BuildEntry } from '../state/entries.js'
import { countsOf, inUse } from '../state/queries.js'
import { FunctionPolicies } from './function-policies.js'
import { type WebhookAccess, WebhookPolicies } from './webhook-policies.js'

/** How often, at least, a function is called: what it knows may change without an event of the fleet. */
const callMs = 60_000

export interface OutsidePolicyDependencies {
  /** Number of callers that wait. */
  readonly waiting: (build: BuildEntry) => number
  /** The functions of the host app, by name. */
  readonly functions: ReadonlyMap<string, ScalingFunction>
  readonly webhooks: WebhookAccess
}

export class OutsidePolicies {
  readonly #waiting: OutsidePolicyDependencies['waiting']
  readonly #functions: FunctionPolicies
  readonly #webhooks: WebhookPolicies

  constructor(ctx: EngineContext, { waiting, functions, webhooks }: OutsidePolicyDependencies) {
    this.#waiting = waiting
    this.#functions = new FunctionPolicies(ctx, functions)
    this.#webhooks = new WebhookPolicies(ctx, webhooks)
  }

  votes(build: BuildEntry, { function: name, webhook }: ScalingSpec, history: History, now: Now): readonly Vote[] {
    if (!webhook) this.#webhooks.forget(build)
    return [
      ...(name === undefined ? [] : [this.#functions.vote(build, name, this.#demand(build), history)]),
      ...(webhook ? [this.#webhooks.vote(build, webhook, now)] : []),
    ]
  }

  /** Asks the webhook if it is time and its answer would count. Returns the time in ms after which to decide again. */
  ask(build: BuildEntry, scaling: ScalingSpec, { decider }: Decision, now: Now): number {
    const againMs = scaling.function === undefined ? Infinity : callMs
    if (!scaling.webhook || decider === 'idle' || decider === 'override') return againMs
    return Math.min(againMs, this.#webhooks.askInTime(build, scaling.webhook, this.#demand(build), now))
  }

  forget(build: BuildEntry): void {
    this.#webhooks.forget(build)
  }

  stop(): void {
    this.#webhooks.stop()
  }

  #demand(build: BuildEntry): ScalingDemand {
    const { standingBy, max } = build.record.spec
    return {
      build: refOf(build.record),
      counts: { ...countsOf(build), inUse: inUse(build) },
      waiting: this.#waiting(build),
      ...{ standingBy, max },
    }
  }
}
