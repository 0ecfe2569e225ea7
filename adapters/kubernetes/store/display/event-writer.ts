/** Creates Kubernetes Events at a limited rate; without the limit, a failing build would flood the cluster with them. */
import type { Clock } from '../../../../src/contracts/clock.js'
import { keyOf } from '../../../../src/rules/model/resources.js'
import type { KubernetesApi } from '../../client/api.js'
import { rfc3339 } from '../../client/fields.js'
import { kubeEvents, pathOf } from '../../client/kube-objects.js'
import type { BackgroundWork } from './background-work.js'
import type { KubeEvent } from './kube-event.js'

export interface EventWriterDependencies {
  readonly api: KubernetesApi
  readonly clock: Clock
  readonly work: BackgroundWork
}

const burst = 50
const perSecond = 5
/** For each build, failures of the same kind are reported at most once in this time. */
const repetitionMs = 60_000

export class EventWriter {
  readonly #deps: EventWriterDependencies
  /** Elapsed ms of the last event for each combination of build and kind of failure. */
  readonly #lastFailures = new Map<string, number>()
  #tokens = burst
  #refilledAt: number
  #count = 0

  constructor(deps: EventWriterDependencies) {
    this.#deps = deps
    this.#refilledAt = deps.clock.elapsed()
  }

  write(event: KubeEvent): void {
    const { work } = this.#deps
    if (!work.closed && !this.#isRepetition(event) && this.#takeToken()) work.run(this.#create(event))
  }

  /** A single cause may make all servers of a build fail repeatedly. */
  #isRepetition({ reason, object }: KubeEvent): boolean {
    if (reason !== 'ServerStartFailed' && reason !== 'ReconcileFailed') return false
    const key = `${reason} ${keyOf(object)}`
    const now = this.#deps.clock.elapsed()
    for (const [old, at] of this.#lastFailures) if (now - at >= repetitionMs) this.#lastFailures.delete(old)
    if (this.#lastFailures.has(key)) return true
    this.#lastFailures.set(key, now)
    return false
  }

  #takeToken(): boolean {
    const now = this.#deps.clock.elapsed()
    this.#tokens = Math.min(burst, this.#tokens + ((now - this.#refilledAt) / 1_000) * perSecond)
    this.#refilledAt = now
    if (this.#tokens < 1) return false
    this.#tokens--
    return true
  }

  async #create({ type, reason, message, at, object }: KubeEvent): Promise<void> {
    const { namespace, name } = object
    const time = rfc3339(at).replace(/\.\d+Z$/, 'Z')
    const suffix = `${Math.floor(at).toString(16)}${(this.#count++ % 4096).toString(16).padStart(3, '0')}`
    const body = {
      metadata: { namespace, name: `${name}.${suffix}` },
      involvedObject: object,
      ...{ type, reason, message: message.slice(0, 1_000) },
      ...{ firstTimestamp: time, lastTimestamp: time, count: 1 },
      source: { component: 'gamekeeper' },
    }
    await this.#deps.api.request({
      what: `create an event for ${namespace}/${name}`,
      method: 'POST',
      path: pathOf(kubeEvents, { namespace }),
      body,
    })
  }
}
