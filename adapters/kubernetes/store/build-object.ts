/**
 * A Build record as a GameServerBuild object, and back. What people write is in its spec, what hosts know in its status: who it
 * is as well, which stays when its manifest is replaced whole, and is in no copy of it. Pure.
 */
import { isObject } from '../../../src/rules/validation/problem.js'
import { type Build, type BuildSpec, type Condition, conditionTypes } from '../../../src/rules/model/resources.js'
import { buildHealth } from '../../../src/rules/model/status.js'
import type { GameServerBuild } from '../../../src/rules/model/wire.js'
import {
  fieldsAt,
  type FleetResources,
  headOf,
  numberAt,
  rfc3339,
  textAt,
  textsAt,
  timeAt,
} from './custom-resources.js'
import type { KubeObject } from '../client/kube-objects.js'

/** Counts and the like, which are in no record. */
export type BuildFigures = Partial<GameServerBuild['status']>

/**
 * Undefined when it is none that could be read: an object of another version of the definitions. `made`: the record that is being
 * created under this name, which is who a new object is whose status was not written yet.
 */
export function readBuild(
  { metadata, ...object }: KubeObject,
  resources: FleetResources,
  made?: Build,
): Build | undefined {
  const { name, namespace, annotations = {} } = metadata
  const spec = readSpec(object['spec'])
  if (namespace === undefined || !spec) return undefined
  const status = fieldsAt({ metadata, ...object }, 'status')
  const own = made !== undefined && annotations[resources.madeAsAnnotation] === made.uid ? made : undefined
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
    ...headOf(resources.builds),
    metadata: {
      name: build.name,
      namespace: build.namespace,
      annotations: { [resources.madeAsAnnotation]: build.uid },
    },
    spec: build.spec,
  }
}

export function buildStatus(build: Build, figures: BuildFigures, upon: string): object {
  return {
    ...figures,
    uid: build.uid,
    createdAt: rfc3339(build.createdAt),
    crashesCount: build.crashes,
    health: buildHealth(build),
    conditions: build.conditions.map(({ type, reason, message, since }) => ({
      type,
      status: 'True',
      reason,
      message,
      lastTransitionTime: rfc3339(since),
    })),
    countedCrashes: build.countedCrashes,
    writtenUpon: upon,
  }
}

/** The schema has checked it: whatever breaks a rule beyond that is for the engine to find. */
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
