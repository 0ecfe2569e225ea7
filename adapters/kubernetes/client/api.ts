/**
 * Calls of the Kubernetes API: plain HTTP with the credentials of a KubeConfig, over connections that are kept. Each call has
 * a limit, and an error in words and with a code; all of them together are bounded to so many a second. What the calls
 * mean is for others to know.
 */
import type { Clock } from '../../../src/contracts/clock.js'
import { FleetError, throwIfAborted } from '../../../src/contracts/errors.js'
import { Underway } from '../../shared/underway.js'
import { isObject } from '../../../src/rules/validation/problem.js'
import { Transport } from './transport.js'
import type { ApiCall, OpenAnswer } from './api-call.js'
import { readRefusal, refused } from './api-errors.js'
import { CallLimits, closed } from './call-limits.js'
import type { Fence } from '../leader-election/fence.js'
import { HttpExchange } from './http-exchange.js'
import type { KubeConfigLike } from './kube-config.js'
import { isKubeObject, type KubeObject } from './kube-objects.js'
import { RateLimiter } from './rate-limiter.js'

export interface KubernetesApiOptions {
  readonly config: KubeConfigLike
  readonly clock: Clock
  /** Most calls a second; urgent ones do not count. */
  readonly requestsPerSecond: number
  /** Most calls at once, each on a connection of its own that is kept. */
  readonly connections: number
  /** Longest a call takes, its wait for a turn included, unless it says otherwise. */
  readonly callTimeoutMs: number
  /** Asked before anything is changed. Default: anything may be. */
  readonly fence?: Fence
}

/** What was answered, or when to ask again: the server is busy, and has done nothing. */
type Outcome = { readonly json: unknown } | { readonly againMs: number }

export class KubernetesApi {
  readonly #options: KubernetesApiOptions
  readonly #access: Transport
  readonly #pace: RateLimiter
  /** Calls, streams and pauses. */
  readonly #underway = new Underway()
  readonly #bounds: CallLimits
  readonly #http: HttpExchange
  /** Of the API server, for messages. */
  readonly place: string
  /** That the kubeconfig's context or the pod's service account names. */
  readonly namespace: string | undefined

  constructor(options: KubernetesApiOptions) {
    const { config, clock, requestsPerSecond, connections, callTimeoutMs, fence } = options
    this.#options = options
    this.#access = new Transport(config, clock, connections)
    this.#pace = new RateLimiter(clock, { perSecond: requestsPerSecond, atOnce: connections })
    this.place = this.#access.place
    const parts = { underway: this.#underway, place: this.place }
    this.#bounds = new CallLimits({ ...parts, clock, limitMs: callTimeoutMs })
    this.#http = new HttpExchange({ ...parts, bounds: this.#bounds, fence })
    this.namespace = config.getContextObject(config.getCurrentContext())?.namespace
  }

  get closed(): boolean {
    return this.#underway.closed
  }

  /** The answer's JSON. Rejects with a FleetError; `statusOf` and `reasonOf` tell what the API server has said. */
  async request(call: ApiCall): Promise<unknown> {
    if (this.#underway.closed) throw closed()
    throwIfAborted(call.signal)
    const endsAt = this.#options.clock.elapsed() + this.#bounds.limitMs(call)
    for (;;) {
      if (!call.urgent && !this.#pace.tryStart(call.ahead === true)) await this.#turn(call, endsAt)
      let outcome: Outcome
      try {
        outcome = await this.#exchange(call, endsAt)
      } finally {
        if (!call.urgent) this.#pace.done()
      }
      if ('json' in outcome) return outcome.json
      // Others have its turn meanwhile.
      await this.pause(outcome.againMs, call.signal)
      if (this.#underway.closed) throw closed()
      throwIfAborted(call.signal)
    }
  }

  /** The same for calls that answer with one object. */
  async object(call: ApiCall): Promise<KubeObject> {
    const answer = await this.request(call)
    if (isKubeObject(answer)) return answer
    throw this.#misunderstood(call)
  }

  /** The same for calls that answer with a list. */
  async list(call: ApiCall): Promise<{ readonly items: readonly KubeObject[]; readonly revision: string }> {
    const answer = await this.request({ limitMs: listMs, ...call })
    if (!isObject(answer) || !Array.isArray(answer['items']) || !isObject(answer['metadata'])) {
      throw this.#misunderstood(call)
    }
    const { resourceVersion } = answer['metadata']
    return {
      items: answer['items'].filter(isKubeObject),
      revision: typeof resourceVersion === 'string' ? resourceVersion : '',
    }
  }

  /** Resolves within the call's limit with an answer that goes on; the limit does not touch that any more. */
  async open(call: ApiCall): Promise<OpenAnswer> {
    if (this.#underway.closed) throw closed()
    throwIfAborted(call.signal)
    const limitMs = this.#bounds.limitMs(call)
    for (let attempt = 1; ; attempt++) {
      const known = this.#access.now()
      const way = known instanceof Promise ? await this.#within(call, limitMs, known) : known
      const opened = await this.#http.open({ ...call, urgent: true }, way)
      if ('body' in opened) return opened
      if (opened.status === 401 && attempt === 1) await this.#within(call, limitMs, this.#access.renew())
      else throw refused(readRefusal(opened.status, opened.text), call.what, this.place)
    }
  }

  /** Every call that is under way rejects, every stream ends. */
  close(): void {
    this.#underway.close()
    this.#access.close()
  }

  /** Resolves after so long, or at once when the signal fires or this is closed: the next call says so. */
  pause(ms: number, signal?: AbortSignal): Promise<void> {
    return this.#underway.pause(this.#options.clock, ms, signal)
  }

  /** Resolves when the call may start; it must be followed by `done`. */
  #turn(call: ApiCall, endsAt: number): Promise<void> {
    return new Promise((resolve, reject) => {
      let leave = () => {}
      const leftMs = endsAt - this.#options.clock.elapsed()
      const settle = this.#bounds.bind(call, leftMs, (error) => {
        leave()
        reject(error)
      })
      leave = this.#pace.wait(call.ahead === true, () => settle(resolve))
    })
  }

  /** The bounds of one call do not end what others wait for as well. */
  #within<T>(call: ApiCall, leftMs: number, work: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const settle = this.#bounds.bind(call, leftMs, reject)
      work.then(
        (value) => settle(() => resolve(value)),
        (error: Error) => settle(() => reject(error)),
      )
    })
  }

  async #exchange(call: ApiCall, endsAt: number): Promise<Outcome> {
    const { clock } = this.#options
    for (let isRenewed = false; ;) {
      const known = this.#access.now()
      const way = known instanceof Promise ? await this.#within(call, endsAt - clock.elapsed(), known) : known
      const { status, text, retryAfterMs } = await this.#http.send(call, way, endsAt - clock.elapsed())
      if (status >= 200 && status < 300) return { json: this.#parse(call, text) }
      if (status === 401 && !isRenewed) {
        isRenewed = true
        await this.#within(call, endsAt - clock.elapsed(), this.#access.renew())
        continue
      }
      // The server is busy and has done nothing: it says itself when to come again.
      if (status === 429 && clock.elapsed() + retryAfterMs < endsAt && !call.signal?.aborted) {
        return { againMs: retryAfterMs }
      }
      throw refused(readRefusal(status, text), call.what, this.place)
    }
  }

  #parse(call: ApiCall, text: string): unknown {
    try {
      return text === '' ? undefined : JSON.parse(text)
    } catch (error) {
      throw this.#misunderstood(call, error)
    }
  }

  #misunderstood({ what }: ApiCall, cause?: unknown): FleetError {
    const message = `the Kubernetes API at ${this.place} did ${what} and answered with something else than it should`
    return new FleetError('unavailable', message, { cause })
  }
}

/** A list of a large fleet takes long to write and to send. */
const listMs = 60_000
