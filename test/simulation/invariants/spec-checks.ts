/** Spec checks that are independent of the engine's own rules. */
import { isDeepStrictEqual } from 'node:util'
import type { InstanceSpec } from '../../../src/contracts/backend.js'
import type { BuildSpec } from '../../../src/rules/model/resources.js'

/** True if the instance was created with the template, ports and metadata of this spec. */
export function runsSpec(instance: InstanceSpec, build: BuildSpec): boolean {
  return (
    isDeepStrictEqual(instance.template, build.template) &&
    isDeepStrictEqual(instance.portsToExpose, build.portsToExpose) &&
    isDeepStrictEqual(instance.sdk.buildMetadata, build.buildMetadata ?? {})
  )
}

/** True if an external edit made the spec invalid. Does not detect a `standingBy` above `max` or a duplicate buildID. */
export function isInvalidSpec({
  game,
  portsToExpose,
  template,
}: Pick<BuildSpec, 'game' | 'portsToExpose' | 'template'>): boolean {
  // Games without an SDK are asked at their first port.
  if (game && portsToExpose.length === 0) return true
  return new Set(portsToExpose).size < portsToExpose.length || JSON.stringify(template).includes('"lots"')
}
