/**
 * The secrets that hold what a game's SDK has to know. A pod is made first, and waits for its own: only once it has a node is
 * its address known. A secret belongs to its pod and goes with it.
 */
import type { InstanceSpec } from '../../../src/contracts/backend.js'
import type { Clock } from '../../../src/contracts/clock.js'
import { messageOf } from '../../../src/contracts/errors.js'
import type { Logger } from '../../../src/contracts/logger.js'
import { pauseMs } from '../../../src/rules/lifecycle/backoff.js'
import { keyOf } from '../../../src/rules/model/resources.js'
import { refusalOf, statusOf } from '../client/api-errors.js'
import type { KubernetesApi } from '../client/api.js'
import { pathOf, secrets } from '../client/kube-objects.js'
import { secretNameOf, secretOf } from './pod-spec.js'
import { isUnstarted } from '../pods/pod-status.js'
import type { PodCache } from '../pods/pod-cache.js'
import type { PodSnapshot } from '../pods/pod-snapshot.js'

export interface SdkSecretsDependencies {
  readonly api: KubernetesApi
  readonly clock: Clock
  readonly logger: Logger
  readonly pods: PodCache
}

const retryLimits = { initialMs: 200, maxMs: 10_000 }
/** A refusal may be over by the next try; after so many it is told. */
const tellingTimes = 3

interface Refused {
  readonly times: number
  /** The API server's, of the last time. */
  readonly words: string
}

export class SdkSecrets {
  readonly #input: SdkSecretsDependencies
  /** By the pod's own uid: what is to be written once it has a node. */
  readonly #wanted = new Map<string, InstanceSpec>()
  readonly #writing = new Set<string>()
  /** Pods that have theirs, as far as they have not started yet. */
  readonly #written = new Set<string>()
  /** By the pod's own uid: those whose configuration the API server has refused, and not taken since. */
  readonly #refused = new Map<string, Refused>()
  #onIdle = () => {}

  constructor(input: SdkSecretsDependencies) {
    this.#input = input
  }

  /** This pod is to run that. */
  want(seen: PodSnapshot, spec: InstanceSpec): void {
    if (this.#written.has(seen.podUid) || !isUnstarted(seen.pod)) return
    this.#wanted.set(seen.podUid, spec)
    this.look(seen)
  }

  /** The pod has changed. Never throws: what fails is tried again for as long as the pod waits for it. */
  look(seen: PodSnapshot): void {
    if (!isUnstarted(seen.pod)) return this.forget(seen)
    if (!this.#wanted.has(seen.podUid) || seen.pod.spec?.nodeName === undefined) return
    if (this.#writing.has(seen.podUid)) return
    this.#writing.add(seen.podUid)
    void this.#carryOut(seen)
  }

  /** Why the pod of that uid does not get what it waits for; undefined unless it was refused again and again. */
  refusalOf(podUid: string): string | undefined {
    const refused = this.#refused.get(podUid)
    return refused && refused.times >= tellingTimes ? refused.words : undefined
  }

  /** Resolves when every pod has what it waits for. */
  idle(): Promise<void> {
    return new Promise((resolve) => {
      this.#onIdle = resolve
      this.#settle()
    })
  }

  forget({ podUid }: PodSnapshot): void {
    this.#wanted.delete(podUid)
    this.#written.delete(podUid)
    this.#refused.delete(podUid)
    this.#settle()
  }

  #settle(): void {
    if (this.#wanted.size === 0) this.#onIdle()
  }

  /** True when a pod that has not started has its secret, or is just getting it. */
  async has({ pod, podUid, identity }: PodSnapshot): Promise<boolean> {
    if (this.#wanted.has(podUid) || this.#written.has(podUid)) return true
    const name = secretNameOf(pod)
    if (name === undefined) return true
    const path = pathOf(secrets, { namespace: identity.ref.namespace, name })
    try {
      await this.#input.api.request({ what: `show secret ${name}`, method: 'GET', path })
    } catch (error) {
      if (statusOf(error) === 404) return false
      throw error
    }
    this.#written.add(podUid)
    return true
  }

  async #carryOut(first: PodSnapshot): Promise<void> {
    const { api, pods } = this.#input
    const { podUid, identity } = first
    for (let failures = 0; !api.closed;) {
      const seen = pods.find(identity.ref)
      const spec = this.#wanted.get(podUid)
      if (!spec || seen?.podUid !== podUid) break
      try {
        if (await this.#write(seen, spec)) break
      } catch (error) {
        failures++
        this.#fail(seen, error)
      }
      await api.pause(pauseMs(Math.max(1, failures), retryLimits))
    }
    this.#writing.delete(podUid)
  }

  #fail({ podUid, identity }: PodSnapshot, error: unknown): void {
    // It has gone meanwhile.
    if (!this.#wanted.has(podUid)) return
    const { logger, pods } = this.#input
    const refusal = refusalOf(error)
    // A call that is not answered says nothing of what it was to write.
    const times = (this.#refused.get(podUid)?.times ?? 0) + (refusal ? 1 : 0)
    const level = refusal && times === tellingTimes ? 'warn' : 'debug'
    const message = `the configuration of ${keyOf(identity.ref)} could not be written yet`
    logger[level]({ error: messageOf(error) }, message)
    if (!refusal) return
    this.#refused.set(podUid, { times, words: refusal.message })
    pods.lookAgain(identity.ref)
  }

  /** False when its address is not known yet. */
  async #write({ pod, podUid, identity }: PodSnapshot, spec: InstanceSpec): Promise<boolean> {
    const { api, pods } = this.#input
    const name = secretNameOf(pod)
    const node = pod.spec?.nodeName
    const address = pods.addressOf(pod)
    if (name === undefined) return true
    if (node === undefined || address === undefined) return false
    const body = secretOf(name, spec, identity.ports, { uid: podUid, node, address })
    const { namespace } = identity.ref
    try {
      // What a pod is to run is settled with the pod, whoever leads by now.
      const call = {
        what: `create secret ${name}`,
        method: 'POST',
        path: pathOf(secrets, { namespace }),
        body,
      } as const
      await api.request({ ...call, unfenced: true })
    } catch (error) {
      // From a call that was not answered: nobody else knows its name.
      if (statusOf(error) !== 409) throw error
    }
    this.#wanted.delete(podUid)
    this.#written.add(podUid)
    if (this.#refused.delete(podUid)) pods.lookAgain(identity.ref)
    this.#settle()
    return true
  }
}
