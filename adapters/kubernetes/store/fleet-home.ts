/**
 * Whose the builds are. Hosts with the same Lease agree on a leader, and Leases are in the system namespace: fleets with other system
 * namespaces cannot see them. So the leader writes its system namespace into the status of its builds, and a host that finds another one
 * there keeps off. A status is not copied along with a manifest.
 */
import type { Logger } from '../../../src/contracts/logger.js'
import { objectAt, stringAt } from '../../../src/rules/validation/pod-template.js'
import { statusOf } from '../client/api-errors.js'
import type { KubernetesApi } from '../client/api.js'
import { keyFor, type KubeObject } from '../client/kube-objects.js'
import { keySecretName } from './fleet-key.js'

interface FleetHomeDependencies {
  readonly api: KubernetesApi
  readonly logger: Logger
  /** The system namespace of this fleet. */
  readonly home: string
  /** Annotation by which an operator gives a build to the fleet with this system namespace. */
  readonly annotation: string
}

/** A host that keeps off looks this often whether it still must. */
const recheckMs = 10_000

export class FleetHome {
  readonly #deps: FleetHomeDependencies
  readonly #closing = new AbortController()
  /** The homes of builds that belong to other fleets, by the keys of the builds. */
  readonly #foreign = new Map<string, string>()
  #recheck: (() => Promise<unknown>) | undefined
  #isRechecking = false
  #hasSeenAll = false

  constructor(deps: FleetHomeDependencies) {
    this.#deps = deps
  }

  get home(): string {
    return this.#deps.home
  }

  /** Why this host must not lead. */
  get obstacle(): string | undefined {
    const [first] = this.#foreign
    if (!first) return undefined
    const [build, other] = first
    const { annotation, home } = this.#deps
    return (
      `build ${build} belongs to the fleet with the system namespace ${other}, and this host has ${home}: give all hosts of a fleet the` +
      ` same systemNamespace, and each fleet namespaces of its own. To move builds to this fleet, stop the other one, copy the Secret` +
      ` ${keySecretName} from there to ${home}, and run \`kubectl annotate gsb --all --overwrite -n <namespace> ${annotation}=${home}\``
    )
  }

  /** `list` reads all builds and calls `seeAll`. Rejects only if the cluster has no such objects. */
  async open(list: () => Promise<unknown>): Promise<void> {
    this.#recheck = list
    try {
      await list()
    } catch (error) {
      if (statusOf(error) === 404) throw error
      // One namespace may be unreadable. No host leads before it has listed the builds itself.
      this.#deps.logger.warn({ err: error }, 'cannot find out whose the builds are; will retry')
      if (!this.#isRechecking) void this.#recheckUntilFree(list)
    }
  }

  close(): void {
    this.#closing.abort()
  }

  /** Call with all builds: those that are missing no longer exist. */
  seeAll(objects: readonly KubeObject[]): void {
    const keys = new Set(objects.map(keyFor))
    for (const key of this.#foreign.keys()) if (!keys.has(key)) this.#foreign.delete(key)
    for (const object of objects) this.see(object)
    this.#hasSeenAll = true
  }

  see(object: KubeObject): void {
    const key = keyFor(object)
    const { annotation, home, logger } = this.#deps
    const other = stringAt(objectAt(object, 'status'), 'home')
    const isGiven = object.metadata.annotations?.[annotation] === home
    if (other === undefined || other === home || isGiven) {
      this.#foreign.delete(key)
      return
    }
    const before = this.obstacle
    this.#foreign.set(key, other)
    if (before === undefined) logger.error({ build: key }, `this host cannot lead: ${this.obstacle}`)
    if (!this.#isRechecking && this.#recheck) void this.#recheckUntilFree(this.#recheck)
  }

  gone(key: string): void {
    this.#foreign.delete(key)
  }

  /** Never rejects. A host that does not lead watches no builds. */
  async #recheckUntilFree(list: () => Promise<unknown>): Promise<void> {
    const { api, logger } = this.#deps
    this.#isRechecking = true
    while (this.#foreign.size > 0 || !this.#hasSeenAll) {
      await api.pause(recheckMs, this.#closing.signal)
      if (this.#closing.signal.aborted || api.closed) return
      try {
        await list()
      } catch (error) {
        logger.debug({ err: error }, 'cannot find out whose the builds are; will retry')
      }
    }
    this.#isRechecking = false
    logger.info({}, 'no build belongs to another fleet')
  }
}
