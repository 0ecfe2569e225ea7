/** Applies patches and updates to a build's record, and creates the errors of build operations. Pure. */
import type { Backend } from '../../contracts/backend.js'
import { FleetError, invalidInput } from '../../contracts/errors.js'
import { canonical } from '../../rules/model/values.js'
import { type Build, type BuildSpec, keyOf, type Ref } from '../../rules/model/resources.js'
import { invalid, isObject, type Problem, type Refused, shown } from '../../rules/validation/problem.js'
import {
  type BuildInput,
  type BuildPatch,
  checkBounds,
  checkForBackend,
  readBuildInput,
} from '../../rules/validation/build-schema.js'
import { runFieldsIn } from '../../rules/validation/run-schema.js'
import { refOf } from '../context.js'

/** What a build's spec says, and the fields of its template that the backend ignores. */
export interface CheckedInput {
  readonly input: BuildInput
  readonly skipped: readonly string[]
}

type CheckingBackend = Pick<Backend, 'capabilities' | 'check' | 'exec'>

/** Reads a build and checks that the backend can run it. Throws `invalid`, or the backend's error. */
export function readForBackend(body: unknown, backend: CheckingBackend): CheckedInput {
  const checked = readBuildInput(body)
  if (!checked.ok) throw invalidInput(checked.problem, 'the build')
  return checkedBy(backend, checked.value)
}

function checkedBy(backend: CheckingBackend, input: BuildInput): CheckedInput {
  const support = checkForBackend(input, backend.capabilities.template, backend.exec !== undefined)
  if (!support.ok) throw invalidField(support.problem)
  try {
    backend.check?.(input.spec)
  } catch (error) {
    if (input.run === undefined || !FleetError.is(error, 'invalid')) throw error
    throw new FleetError('invalid', runFieldsIn(error.message, input.run))
  }
  return { input, skipped: support.value.skipped }
}

/** Applies a patch. Throws `invalid`. */
export function patched(build: Build, change: BuildPatch, maxServers: number): Build {
  const spec = { ...build.spec, ...change }
  const failed = checkMax(spec.max, maxServers, '', build.spec) ?? checkBounds(spec.standingBy, spec.max, '')
  if (failed) throw invalidField(failed.problem)
  return { ...build, spec }
}

/** Reads the spec that an update leads to. A field set to undefined is removed. Throws `invalid`, or the backend's error. */
export function readUpdate(
  build: Build,
  change: unknown,
  { backend, maxServers }: { readonly backend: CheckingBackend; readonly maxServers: number },
): CheckedInput {
  if (!isObject(change)) {
    throw invalidInput({ field: 'body', message: `must be an object, but is ${shown(change)}` }, 'the change')
  }
  if ('buildID' in change && change['buildID'] !== build.spec.buildID) throw buildIDFixed()
  const replaced = change['run'] === undefined ? {} : { portsToExpose: undefined, template: undefined }
  const merged = { ...build.spec, ...replaced, ...change }
  const spec = Object.fromEntries(Object.entries(merged).filter(([, value]) => value !== undefined))
  const checked = readForBackend({ metadata: refOf(build), spec }, backend)
  const failed = checkMax(checked.input.spec.max, maxServers, 'spec.', build.spec)
  if (failed) throw invalidField(failed.problem)
  return checked
}

/** Replaces the whole spec. Returns the same record if that changes nothing. Throws `invalid`. */
export function replaced(build: Build, spec: BuildSpec, maxServers: number): Build {
  if (canonical(spec) === canonical(build.spec)) return build
  if (spec.buildID !== build.spec.buildID) throw buildIDFixed()
  const failed = checkMax(spec.max, maxServers, 'spec.', build.spec)
  if (failed) throw invalidField(failed.problem)
  return { ...build, spec }
}

/**
 * Returns undefined if `max` is at most `limits.maxServersPerBuild`, or as it was `before`: a build that was stored when the limit
 * was higher can still be changed.
 */
export function checkMax(
  max: number,
  maxServers: number,
  prefix: '' | 'spec.',
  before?: Pick<BuildSpec, 'max'>,
): Refused | undefined {
  if (max <= maxServers || max === before?.max) return undefined
  return invalid(`${prefix}max`, `must be at most limits.maxServersPerBuild, which is ${maxServers}, but is ${max}`)
}

export function invalidField(problem: Problem): FleetError {
  return new FleetError('invalid', `${problem.field} ${problem.message}`)
}

function buildIDFixed(): FleetError {
  return new FleetError('invalid', 'spec.buildID cannot be changed; create another build')
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
