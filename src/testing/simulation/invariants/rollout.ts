/** Whether an instance runs what its build asks for. */
import { isDeepStrictEqual } from 'node:util'
import type { InstanceSpec } from '../../../backend.js'
import type { BuildSpec } from '../../../rules/resources.js'

export function runs(instance: InstanceSpec, build: BuildSpec): boolean {
  return (
    isDeepStrictEqual(instance.template, build.template) &&
    isDeepStrictEqual(instance.portsToExpose, build.portsToExpose) &&
    isDeepStrictEqual(instance.sdk.buildMetadata, build.buildMetadata ?? {})
  )
}
