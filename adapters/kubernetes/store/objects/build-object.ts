/**
 * Converts between Build records and GameServerBuild objects. Users write the spec; hosts write the status. The status also
 * contains the record's uid: there it survives `kubectl replace` and is not copied along with a manifest. Pure.
 */
import type { DisplayedReadiness } from '../../../../src/contracts/store.js'
import { type Build, type BuildSpec, type Condition, conditionTypes } from '../../../../src/rules/model/resources.js'
import { buildHealth } from '../../../../src/rules/model/status.js'
import type { GameServerBuild } from '../../../../src/rules/model/wire.js'
import { isObject } from '../../../../src/rules/validation/problem.js'
import { fieldsAt, numberAt, rfc3339, textAt, textsAt, timeAt } from '../../client/fields.js'
import { type KubeObject, typeMetaOf } from '../../client/kube-objects.js'
import type { ReadyCondition } from '../ready-conditions.js'
import type { FleetResources } from './custom-resources.js'

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
  const spec = readSpec(object['spec'])
  if (namespace === undefined || !spec) return undefined
  const status = fieldsAt({ metadata, ...object }, 'status')
  const isOwn = creating !== undefined && annotations[resources.createdAsAnnotation] === creating.uid
  const own = isOwn ? creating : undefined
  return {
    namespace,
    name,
    uid: textAt(status, 'uid') ?? own?.uid ?? metadata.uid ?? '',
    createdAt: timeAt(status, 'createdAt') ?? own?.createdAt ?? Date.parse(metadata.creationTimestamp ?? ''),
    spec,
    crashes: numberAt(status, 'crashesCount') ?? 0,
    countedCrashes: textsAt(status, 'countedCrashes'),
    conditions: readConditions(status['conditions']),
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

export interface WrittenStatus {
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
    writtenUpon: basedOn,
  }
}

/** Checks only the shape; the engine validates the values. */
function readSpec(spec: unknown): BuildSpec | undefined {
  return isSpec(spec) ? spec : undefined
}

function isSpec(spec: unknown): spec is BuildSpec {
  if (!isObject(spec)) return false
  const { buildID, standingBy, max, portsToExpose, template } = spec
  const counts = [standingBy, max].every((count) => typeof count === 'number')
  return typeof buildID === 'string' && counts && Array.isArray(portsToExpose) && isObject(template)
}

function readConditions(list: unknown): readonly Condition[] {
  if (!Array.isArray(list)) return []
  return list.flatMap((entry: unknown) => {
    if (!isObject(entry) || entry['status'] !== 'True') return []
    const type = conditionTypes.find((known) => known === entry['type'])
    const since = timeAt(entry, 'lastTransitionTime')
    if (type === undefined || since === undefined) return []
    return [{ type, reason: textAt(entry, 'reason') ?? '', message: textAt(entry, 'message') ?? '', since }]
  })
}
