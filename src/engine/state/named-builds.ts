/** Finds builds by their buildID and by the labels in their specs. */
import { type BuildSpec, keyOf } from '../../rules/model/resources.js'
import { hasLabels } from '../../rules/planning/selection.js'
import type { BuildEntry } from './entries.js'

export class NamedBuilds {
  readonly #builds = new Set<BuildEntry>()
  readonly #byID = new Map<string, BuildEntry>()
  readonly #byLabel = new Map<string, Set<BuildEntry>>()

  byID(buildID: string): BuildEntry | undefined {
    return this.#byID.get(buildID)
  }

  /**
   * The builds that have these labels, of which there is at least one, oldest first. Looks at those with the rarest of the labels. Without
   * those whose buildID belongs to another build.
   */
  withLabels(labels: Readonly<Record<string, string>>): readonly BuildEntry[] {
    let rarest: ReadonlySet<BuildEntry> | undefined
    for (const key of labelKeys(labels)) {
      const builds = this.#byLabel.get(key)
      if (!builds) return []
      if (!rarest || builds.size < rarest.size) rarest = builds
    }
    const found = [...(rarest ?? [])].filter(
      (build) => hasLabels(build.record.spec, labels) && this.#byID.get(build.record.spec.buildID) === build,
    )
    return found.sort(byAge)
  }

  add(build: BuildEntry): void {
    this.#builds.add(build)
    this.#claimID(build)
    this.#addLabels(build)
  }

  /** Call when the spec of the build has replaced `before`. A deleted build, whose last write may be answered late, claims nothing. */
  changed(build: BuildEntry, before: BuildSpec): void {
    if (!this.#builds.has(build)) return
    const { buildID, labels } = build.record.spec
    if (before.buildID !== buildID) {
      if (this.#byID.get(before.buildID) === build) this.#reassignID(before.buildID)
      this.#claimID(build)
    }
    if (before.labels === labels) return
    this.#deleteLabels(build, before)
    this.#addLabels(build)
  }

  delete(build: BuildEntry): void {
    const { spec } = build.record
    this.#builds.delete(build)
    if (this.#byID.get(spec.buildID) === build) this.#reassignID(spec.buildID)
    this.#deleteLabels(build, spec)
  }

  /**
   * Claims the build's buildID. External edits can give two builds the same buildID; the first one to claim it keeps it
   * until its buildID changes.
   */
  #claimID(build: BuildEntry): void {
    const { buildID } = build.record.spec
    if (!this.#byID.has(buildID)) this.#byID.set(buildID, build)
  }

  #reassignID(buildID: string): void {
    this.#byID.delete(buildID)
    for (const build of this.#builds) if (build.record.spec.buildID === buildID) this.#claimID(build)
  }

  #addLabels(build: BuildEntry): void {
    for (const key of labelKeys(build.record.spec.labels)) {
      const builds = this.#byLabel.get(key) ?? new Set()
      this.#byLabel.set(key, builds.add(build))
    }
  }

  #deleteLabels(build: BuildEntry, { labels }: BuildSpec): void {
    for (const key of labelKeys(labels)) {
      const builds = this.#byLabel.get(key)
      if (builds?.delete(build) && builds.size === 0) this.#byLabel.delete(key)
    }
  }
}

/** A text for each label, with which builds are found that have it. */
export function labelKeys(labels: BuildSpec['labels'] = {}): readonly string[] {
  return Object.entries(labels).map(([key, value]) => `${key}=${value}`)
}

function byAge({ record: a }: BuildEntry, { record: b }: BuildEntry): number {
  return a.createdAt - b.createdAt || (keyOf(a) < keyOf(b) ? -1 : 1)
}
