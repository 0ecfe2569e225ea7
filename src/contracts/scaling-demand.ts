/** Scaling policies of the host app: functions that say how many servers a build keeps ready. */
import type { DemandMinute } from '../rules/demand/demand-day.js'
import type { Ref } from '../rules/model/resources.js'
import type { BuildCounts } from '../rules/model/build-status.js'

/** What a scaling policy outside the fleet may decide by. */
export interface ScalingDemand {
  readonly build: Ref
  /** Number of servers by state. */
  readonly counts: ScalingCounts
  /** Number of callers that wait for a server. */
  readonly waiting: number
  /** From the build's spec. */
  readonly standingBy: number
  /** From the build's spec. */
  readonly max: number
}

export interface ScalingCounts extends BuildCounts {
  /** Servers that are Active, being allocated or reserved by a caller. */
  readonly inUse: number
}

export interface ScalingFunctionInput extends ScalingDemand {
  readonly now: Date
  /** The minute of this time, as it was recorded on the last days. Undefined if that is not known. */
  readonly history: (at: Date) => DemandMinute | undefined
}

/**
 * Returns how many servers the build keeps ready: a finite number ≥ 0, which is rounded up. Called synchronously at each decision about a
 * build that names it in `spec.scaling.function`, so it must return quickly. If it throws, or returns something else, its last answer holds.
 */
export type ScalingFunction = (input: ScalingFunctionInput) => number

/** What a scaling webhook is sent. */
export interface WebhookBody extends ScalingDemand {
  /** RFC 3339, in UTC. */
  readonly now: string
}

export interface WebhookRequest {
  readonly url: string
  readonly body: WebhookBody
  /** The request fails if it has not been answered completely by then. */
  readonly timeoutMs: number
  /** Ends the request. */
  readonly signal: AbortSignal
}

/** Resolves with the JSON that the webhook has answered with, whatever it is. Rejects with an error that says why there is none. */
export type AskWebhook = (request: WebhookRequest) => Promise<unknown>
