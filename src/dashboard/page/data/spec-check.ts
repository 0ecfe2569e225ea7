/** Checks an edited spec by the rules that the host applies. Pure. */
import { type BuildInput, readBuildInput } from '../../../rules/validation/build-schema.js'
import type { GameServerBuild } from '../../../rules/model/wire.js'

export type CheckedSpec =
  { readonly ok: true; readonly input: BuildInput } | { readonly ok: false; readonly problem: string }

/** What only the host knows, such as what its backend can run, it says when the spec is applied. */
export function checkSpec(text: string, { metadata, spec }: Pick<GameServerBuild, 'metadata' | 'spec'>): CheckedSpec {
  let edited: unknown
  try {
    edited = JSON.parse(text)
  } catch (error) {
    return { ok: false, problem: `This is not JSON: ${error instanceof Error ? error.message : String(error)}` }
  }
  const { name, namespace } = metadata
  const checked = readBuildInput({ metadata: { name, namespace }, spec: edited })
  if (!checked.ok) return { ok: false, problem: `${checked.problem.field} ${checked.problem.message}` }
  if (checked.value.spec.buildID !== spec.buildID)
    return { ok: false, problem: `spec.buildID cannot be changed; it is ${spec.buildID}` }
  return { ok: true, input: checked.value }
}
