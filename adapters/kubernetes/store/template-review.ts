/**
 * Checks the templates of builds that may have been written without the API, such as by `kubectl apply`. They cannot be refused any more, so
 * an Event of the build names the fields that pods do not have, which the cluster drops from every pod, or for which it refuses every pod.
 */
import type { Clock } from '../../../src/contracts/clock.js'
import type { CollectionListener } from '../../../src/contracts/store.js'
import { type Build, keyOf, type PodTemplateSpec } from '../../../src/rules/model/resources.js'
import { templateHash } from '../../../src/rules/planning/template-hash.js'
import type { TemplateProblem } from '../provisioning/template-check.js'

/** Finds fields that pods do not have, or cannot have with these values. Never rejects. */
export type CheckTemplate = (namespace: string, template: PodTemplateSpec) => Promise<TemplateProblem | undefined>

export interface TemplateReviewDependencies {
  readonly clock: Clock
  readonly check: CheckTemplate
  readonly warn: (build: Build, found: TemplateProblem, at: number) => void
}

export class TemplateReview {
  readonly #deps: TemplateReviewDependencies
  /** What was checked of each build last. */
  readonly #checked = new Map<string, string>()
  /** One check at a time: each is a call that creates nothing. */
  #last = Promise.resolve()
  #isStopped = false

  constructor(deps: TemplateReviewDependencies) {
    this.#deps = deps
  }

  /** Returns a listener that also reviews what it reports. */
  reviewing(listener: CollectionListener<Build>): CollectionListener<Build> {
    return {
      listed: (all, namespace) => {
        listener.listed(all, namespace)
        for (const { record } of all) this.#see(record)
      },
      changed: (found) => {
        listener.changed(found)
        this.#see(found.record)
      },
      gone: (ref) => {
        listener.gone(ref)
        this.#checked.delete(keyOf(ref))
      },
    }
  }

  stop(): void {
    this.#isStopped = true
  }

  #see(build: Build): void {
    const key = keyOf(build)
    const version = `${build.uid} ${templateHash(build.spec)}`
    if (this.#checked.get(key) === version) return
    this.#checked.set(key, version)
    this.#last = this.#last.then(() => this.#review(build, () => this.#checked.get(key) === version))
  }

  /** Never rejects. */
  async #review(build: Build, isCurrent: () => boolean): Promise<void> {
    const { clock, check, warn } = this.#deps
    if (this.#isStopped || !isCurrent()) return
    const found = await check(build.namespace, build.spec.template)
    if (!found || this.#isStopped || !isCurrent()) return
    const consequence = found.isDropped ? 'its pods are created without it' : 'the cluster refuses its pods'
    warn(build, { ...found, message: `${found.message}; ${consequence}` }, clock.now())
  }
}
