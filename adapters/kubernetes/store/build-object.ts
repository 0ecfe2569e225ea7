/**
 * Converts between Build records and GameServerBuild objects. Users write the spec; hosts write the status. The status also
 * contains the record's uid: there it survives `kubectl replace` and is not copied along with a manifest. No I/O.
 */
import { isDeepStrictEqual } from 'node:util'
import type { DisplayedReadiness } from '../../../src/contracts/store.js'
import {
  type Build,
  type BuildCrash,
  type BuildSpec,
  type Condition,
  conditionTypes,
  endingReasons,
  keyOf,
} from '../../../src/rules/model/resources.js'
import { buildHealth } from '../../../src/rules/model/build-status.js'
import type { GameServerBuild } from '../../../src/rules/model/wire.js'
import { isObject } from '../../../src/rules/validation/problem.js'
import { type Fields, objectAt, objectsAt, stringAt, stringsAt } from '../../../src/rules/validation/pod-template.js'
import {
  isNewerRevision,
  type KubeObject,
  numberAt,
  revisionOf,
  rfc3339,
  timeAt,
  typeMetaOf,
} from '../client/kube-objects.js'
import type { FleetResources } from './custom-collection.js'

/** Counts, rollout progress and readiness, which are not part of the record. */
export type BuildCounts = Partial<GameServerBuild['status']> & { readonly readiness?: DisplayedReadiness }

/**
 * Reads a build. Returns undefined if the object is invalid, for example because it was written for another version of the
 * definitions. `creating` is the record being created under this name: it provides the identity of a new object until its
 * status is written.
 */
export function readBuild(
  { metadata, ...object }: KubeObject,
  resources: FleetResources,
  creating?: Build,
): Build | undefined {
  const { name, namespace, annotations = {} } = metadata
  const { spec } = object
  if (namespace === undefined || !isSpec(spec)) return undefined
  const status = objectAt({ metadata, ...object }, 'status')
  const isOwn = creating !== undefined && annotations[resources.createdAsAnnotation] === creating.uid
  const own = isOwn ? creating : undefined
  const recentCrashes = readCrashes(status)
  return {
    namespace,
    name,
    uid: stringAt(status, 'uid') ?? own?.uid ?? metadata.uid ?? '',
    createdAt: timeAt(status, 'createdAt') ?? own?.createdAt ?? Date.parse(metadata.creationTimestamp ?? ''),
    spec,
    crashes: numberAt(status, 'crashesCount') ?? 0,
    countedCrashes: stringsAt(status, 'countedCrashes'),
    conditions: readConditions(status),
    ...(recentCrashes.length > 0 && { recentCrashes }),
  }
}

export function newBuildObject(build: Build, resources: FleetResources): object {
  return {
    ...typeMetaOf(resources.builds),
    metadata: {
      name: build.name,
      namespace: build.namespace,
      annotations: { [resources.createdAsAnnotation]: build.uid },
    },
    spec: build.spec,
  }
}

interface WrittenStatus {
  /** The revision that the write replaces. It changes the object, so that every write gets a new revision. */
  readonly basedOn: string
  readonly home: string
  readonly ready?: ReadyCondition | undefined
}

export function buildStatus(build: Build, counts: BuildCounts, { basedOn, home, ready }: WrittenStatus): object {
  const { readiness: _, ...shown } = counts
  return {
    ...shown,
    uid: build.uid,
    home,
    createdAt: rfc3339(build.createdAt),
    crashesCount: build.crashes,
    health: buildHealth(build),
    conditions: [
      ...build.conditions.map(({ type, reason, message, since }) => ({
        type,
        status: 'True',
        reason,
        message,
        lastTransitionTime: rfc3339(since),
      })),
      ...(ready ? [ready] : []),
    ],
    countedCrashes: build.countedCrashes,
    ...(build.recentCrashes && {
      recentCrashes: build.recentCrashes.map(({ at, ...crash }) => ({ time: rfc3339(at), ...crash })),
    }),
    writtenUpon: basedOn,
  }
}

/** Checks only the shape; the engine validates the values. */
function isSpec(spec: unknown): spec is BuildSpec {
  if (!isObject(spec)) return false
  const { buildID, standingBy, max, portsToExpose, template } = spec
  const counts = [standingBy, max].every((count) => typeof count === 'number')
  return typeof buildID === 'string' && counts && Array.isArray(portsToExpose) && isObject(template)
}

function readConditions(status: Fields): readonly Condition[] {
  return objectsAt(status, 'conditions').flatMap((entry) => {
    if (entry['status'] !== 'True') return []
    const type = conditionTypes.find((known) => known === entry['type'])
    const since = timeAt(entry, 'lastTransitionTime')
    if (type === undefined || since === undefined) return []
    return [{ type, reason: stringAt(entry, 'reason') ?? '', message: stringAt(entry, 'message') ?? '', since }]
  })
}

function readCrashes(status: Fields): readonly BuildCrash[] {
  return objectsAt(status, 'recentCrashes').flatMap((entry) => {
    const [at, server, output] = [timeAt(entry, 'time'), stringAt(entry, 'server'), stringAt(entry, 'output')]
    const reason = endingReasons.find((known) => known === entry['reason'])
    if (at === undefined || server === undefined || reason === undefined) return []
    return [{ at, server, reason, message: stringAt(entry, 'message') ?? '', ...(output !== undefined && { output }) }]
  })
}

export interface ReadyCondition {
  readonly type: 'Ready'
  readonly status: 'True' | 'False'
  readonly reason: string
  readonly message: string
  readonly lastTransitionTime: string
  /** The generation of the spec that the condition is about. `kubectl wait` waits for the latest one. Absent until it is known. */
  readonly observedGeneration?: number
}

interface Seen {
  readonly revision: string
  readonly generation: number | undefined
  readonly status: string | undefined
  readonly since: string | undefined
  readonly observedGeneration: number | undefined
}

/**
 * The condition `Ready` of GameServerBuilds, for `kubectl wait`. The fleet writes it for people and never acts on it: it remembers only since
 * when it has been so.
 */
export class ReadyConditions {
  /** The latest state of each build. */
  readonly #seen = new Map<string, Seen>()

  see(object: KubeObject): void {
    const { namespace, name, generation } = object.metadata
    if (namespace === undefined) return
    const key = keyOf({ namespace, name })
    const revision = revisionOf(object)
    const before = this.#seen.get(key)
    if (before && !isNewerRevision(revision, before.revision)) return
    const conditions = objectsAt(objectAt(object, 'status'), 'conditions')
    const ready = conditions.find(({ type }) => type === 'Ready') ?? {}
    this.#seen.set(key, {
      revision,
      generation,
      status: stringAt(ready, 'status'),
      since: stringAt(ready, 'lastTransitionTime'),
      observedGeneration: numberAt(ready, 'observedGeneration'),
    })
  }

  forget(key: string): void {
    this.#seen.delete(key)
  }

  forgetAll(): void {
    this.#seen.clear()
  }

  /** The condition to write to a build with the spec `current`. */
  conditionOf(
    key: string,
    { ready, reason, message, spec }: DisplayedReadiness,
    current: BuildSpec,
    now: number,
  ): ReadyCondition {
    const seen = this.#seen.get(key)
    const status = ready ? 'True' : 'False'
    const observedGeneration = isDeepStrictEqual(spec, current) ? seen?.generation : seen?.observedGeneration
    return {
      type: 'Ready',
      status,
      reason,
      message,
      lastTransitionTime: (seen?.status === status ? seen.since : undefined) ?? rfc3339(now),
      ...(observedGeneration !== undefined && { observedGeneration }),
    }
  }
}
