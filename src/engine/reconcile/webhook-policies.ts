/**
 * Asks the webhooks that builds name as a scaling policy, with one request per build at a time, and keeps their last answers. A decision never
 * waits for an answer: the answer has the build decided again.
 */
import { messageOf } from '../../contracts/errors.js'
import type { AskWebhook, ScalingDemand } from '../../contracts/scaling-demand.js'
import type { Now, Vote, WebhookPolicy } from '../../rules/scaling/policies.js'
import {
  answeredNumber,
  forbiddenWebhookVote,
  nextRequestMs,
  unasked,
  type WebhookAnswers,
  webhookVote,
  withWebhookDefaults,
} from '../../rules/scaling/webhook-vote.js'
import type { EngineContext } from '../context.js'
import type { BuildEntry } from '../state/entries.js'

export interface WebhookAccess {
  readonly ask: AskWebhook
  /** The origins that the host app allows. */
  readonly origins: ReadonlySet<string>
}

interface AskedWebhook {
  readonly url: string
  answers: WebhookAnswers
  /** The request in progress. */
  request: AbortController | undefined
}

export class WebhookPolicies {
  readonly #ctx: Pick<EngineContext, 'clock' | 'enqueue' | 'logger'>
  readonly #access: WebhookAccess
  readonly #webhooks = new WeakMap<BuildEntry, AskedWebhook>()
  readonly #requests = new Set<AbortController>()

  constructor(ctx: Pick<EngineContext, 'clock' | 'enqueue' | 'logger'>, access: WebhookAccess) {
    this.#ctx = ctx
    this.#access = access
  }

  vote(build: BuildEntry, policy: WebhookPolicy, now: Now): Vote {
    if (!this.#mayCall(policy)) return forbiddenWebhookVote(policy.url)
    return webhookVote(policy, this.#webhookOf(build, policy.url).answers, now)
  }

  /** Asks the webhook if it is time. Returns the time in ms until it is: infinite while a request is in progress. */
  askInTime(build: BuildEntry, policy: WebhookPolicy, demand: ScalingDemand, now: Now): number {
    if (!this.#mayCall(policy)) return Infinity
    const webhook = this.#webhookOf(build, policy.url)
    if (webhook.request) return Infinity
    const { counts, waiting, standingBy, max } = demand
    const about = String([counts.inUse, waiting, standingBy, max])
    const restMs = nextRequestMs(policy, webhook.answers, about, now)
    if (restMs > 0) return restMs
    webhook.answers = { ...webhook.answers, asked: { at: now.elapsed, about } }
    void this.#ask(build, webhook, policy, { ...demand, now: new Date(now.wall).toISOString() })
    return Infinity
  }

  /** The build has no webhook any longer. */
  forget(build: BuildEntry): void {
    this.#webhooks.get(build)?.request?.abort()
    this.#webhooks.delete(build)
  }

  stop(): void {
    for (const request of this.#requests) request.abort()
  }

  #mayCall({ url }: WebhookPolicy): boolean {
    return this.#access.origins.has(new URL(url).origin)
  }

  #webhookOf(build: BuildEntry, url: string): AskedWebhook {
    const known = this.#webhooks.get(build)
    if (known?.url === url) return known
    this.forget(build)
    const webhook = { url, answers: unasked, request: undefined }
    this.#webhooks.set(build, webhook)
    return webhook
  }

  /** Never rejects. */
  async #ask(
    build: BuildEntry,
    webhook: AskedWebhook,
    policy: WebhookPolicy,
    body: Parameters<AskWebhook>[0]['body'],
  ): Promise<void> {
    const { clock, enqueue } = this.#ctx
    const request = new AbortController()
    webhook.request = request
    this.#requests.add(request)
    const timeoutMs = withWebhookDefaults(policy).timeoutSeconds * 1_000
    const answer = await this.#answer({ url: policy.url, body, timeoutMs, signal: request.signal })
    this.#requests.delete(request)
    if (request.signal.aborted) return
    webhook.request = undefined
    if ('standingBy' in answer) {
      const at = { wall: clock.now(), elapsed: clock.elapsed() }
      webhook.answers = { ...webhook.answers, answer: { ...answer, at }, failure: undefined }
    } else {
      this.#failed(build, webhook, answer.problem)
    }
    enqueue(build)
  }

  async #answer(request: Parameters<AskWebhook>[0]): Promise<ReturnType<typeof answeredNumber>> {
    try {
      return answeredNumber(await this.#access.ask(request))
    } catch (error) {
      return { problem: messageOf(error) }
    }
  }

  /** Logs the first failure after an answer. */
  #failed(build: BuildEntry, webhook: AskedWebhook, failure: string): void {
    const isFirst = webhook.answers.failure === undefined
    webhook.answers = { ...webhook.answers, failure }
    if (!isFirst) return
    const { origin } = new URL(webhook.url)
    const fields = { build: build.record.name, url: origin, reason: failure }
    this.#ctx.logger.warn(fields, 'scaling webhook failed; its last answer holds for a time')
  }
}
