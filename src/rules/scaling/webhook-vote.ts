/** What a webhook asks for, as a scaling policy, and when it is asked again. Its last answer holds for a time. Pure. */
import { isObject, shown } from '../validation/problem.js'
import { numberIn } from './function-vote.js'
import { type Now, shownTime, type Vote, type WebhookPolicy } from './policies.js'

/** What is known of a webhook. */
export interface WebhookAnswers {
  /** The last number that it answered with. */
  readonly answer: { readonly standingBy: number; readonly at: Now } | undefined
  /** Why the last request came to nothing, if it did. */
  readonly failure: string | undefined
  /** When it was asked last, elapsed ms, and about what demand. */
  readonly asked: { readonly at: number; readonly about: string } | undefined
}

export const unasked: WebhookAnswers = { answer: undefined, failure: undefined, asked: undefined }

const defaults = { everySeconds: 10, timeoutSeconds: 5, holdSeconds: 300, otherwise: 0 }

/** How often a webhook is asked while the demand stays the same, unless it is asked less often, or its answers hold for a shorter time. */
const refreshSeconds = 30

export function withWebhookDefaults(policy: WebhookPolicy): Required<WebhookPolicy> {
  return { ...defaults, ...policy }
}

/** Its last answer while that holds, or else `otherwise`. */
export function webhookVote(policy: WebhookPolicy, { answer, failure }: WebhookAnswers, now: Now): Vote {
  const { holdSeconds, otherwise } = withWebhookDefaults(policy)
  const why = failure === undefined ? '' : `: ${failure}`
  if (!answer) return vote(otherwise, `asks for ${otherwise} until it answers${why}`)
  const restMs = answer.at.elapsed + holdSeconds * 1_000 - now.elapsed
  const answeredAt = shownTime(answer.at.wall)
  if (restMs <= 0) return vote(otherwise, `asks for ${otherwise}, as it has not answered since ${answeredAt}${why}`)
  const { standingBy } = answer
  const held = failure === undefined ? '' : `, as it answered at ${answeredAt}, and not since then${why}`
  return { ...vote(standingBy, `asks for ${standingBy}${held}`), nextMs: restMs }
}

/** The host app allows no requests to this URL. */
export function forbiddenWebhookVote(url: string): Vote {
  const { origin } = new URL(url)
  return vote(
    0,
    `asks for nothing: this host may not call ${origin}: add it to scalingWebhooks, or SCALING_WEBHOOKS of the bundled server`,
  )
}

/** Time in ms until the webhook may be asked again: sooner if the demand has changed since, or if the last request came to nothing. */
export function nextRequestMs(policy: WebhookPolicy, answers: WebhookAnswers, about: string, now: Now): number {
  const { asked, failure } = answers
  if (!asked) return 0
  const { everySeconds, holdSeconds, timeoutSeconds } = withWebhookDefaults(policy)
  const isSettled = failure === undefined && asked.about === about
  const seconds = Math.max(everySeconds, isSettled ? Math.min(refreshSeconds, holdSeconds - timeoutSeconds) : 0)
  return Math.max(0, asked.at + seconds * 1_000 - now.elapsed)
}

/** The number in the body of an answer, or what is wrong with it. */
export function answeredNumber(body: unknown): ReturnType<typeof numberIn> {
  if (isObject(body) && 'standingBy' in body) return numberIn(body['standingBy'])
  return { problem: `the answer must be like {"standingBy":2}, but is ${shown(body)}` }
}

function vote(standingBy: number, asks: string): Vote {
  return { by: 'webhook', standingBy, reason: `webhook ${asks}` }
}
