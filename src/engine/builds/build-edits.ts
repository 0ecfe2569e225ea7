/** Applies patches and updates to a build's record, and creates the errors of build operations. Pure. */
import { FleetError } from '../../contracts/errors.js'
import { type Build, keyOf, type Ref } from '../../rules/model/resources.js'
import { isObject, type Problem, shown } from '../../rules/validation/problem.js'
import { type BuildPatch, checkBounds, readBuildInput } from '../../rules/validation/requests.js'
import { refOf } from '../context.js'

/** Applies a patch. Throws `invalid`. */
export function patched(build: Build, change: BuildPatch): Build {
  const spec = { ...build.spec, ...change }
  const failed = checkBounds(spec.standingBy, spec.max, '')
  if (failed) throw invalidField(failed.problem)
  return { ...build, spec }
}

/** Applies an update. A field set to undefined is removed. Throws `invalid`. */
export function updated(build: Build, change: unknown): Build {
  if (!isObject(change)) throw new FleetError('invalid', `the change must be an object, but is ${shown(change)}`)
  if ('buildID' in change && change['buildID'] !== build.spec.buildID) {
    throw new FleetError('invalid', 'spec.buildID cannot be changed; create another build')
  }
  const spec = Object.fromEntries(
    Object.entries({ ...build.spec, ...change }).filter(([, value]) => value !== undefined),
  )
  const checked = readBuildInput({ metadata: refOf(build), spec })
  if (!checked.ok) throw invalidField(checked.problem)
  return { ...build, spec: checked.value.spec }
}

export function invalidField(problem: Problem): FleetError {
  return new FleetError('invalid', `${problem.field} ${problem.message}`)
}

export function buildNotFound(ref: Ref): FleetError {
  return new FleetError('not-found', `build ${keyOf(ref)} does not exist`)
}

export function nameTaken(ref: Ref, cause?: unknown): FleetError {
  return new FleetError('exists', `metadata.name ${keyOf(ref)} is already used by a build`, { cause })
}

/** `owner` is the build that uses the buildID. It is undefined while that build is still being created. */
export function buildIDTaken(buildID: string, owner: Ref | undefined): FleetError {
  const by = owner ? `build ${keyOf(owner)}` : 'a build that is being created'
  return new FleetError('exists', `spec.buildID ${JSON.stringify(buildID)} is already used by ${by}`)
}
