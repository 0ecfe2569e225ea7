/** Whether an instance runs what its build asks for. */
import { isDeepStrictEqual } from 'node:util'
import type { InstanceSpec } from '../../../contracts/backend.js'
import type { BuildSpec } from '../../../rules/model/resources.js'

export function runs(instance: InstanceSpec, build: BuildSpec): boolean {
  return (
    isDeepStrictEqual(instance.template, build.template) &&
    isDeepStrictEqual(instance.portsToExpose, build.portsToExpose) &&
    isDeepStrictEqual(instance.sdk.buildMetadata, build.buildMetadata ?? {})
  )
}
