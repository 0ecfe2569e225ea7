/**
 * Validates specs that come from the store: edited there, for example with `kubectl edit`, or written by a version with other
 * limits. They cannot be rejected, so problems are reported as conditions. A build with an invalid spec keeps its servers and
 * gets no new ones, and it can be changed and deleted like any other.
 */
import { FleetError } from '../../contracts/errors.js'
import { type Build, type BuildSpec, keyOf } from '../../rules/model/resources.js'
import { checkForBackend, readBuildInput } from '../../rules/validation/build-schema.js'
import { type EngineContext, refOf } from '../context.js'
import { type Conditions, hasCondition, withSpecProblems } from '../reporting/conditions.js'
import type { BuildEntry } from '../state/entries.js'

export class SpecValidation {
  readonly #ctx: EngineContext
  readonly #conditions: Conditions
  /** The last valid spec of each build. */
  readonly #valid = new WeakMap<BuildEntry, BuildSpec>()

  constructor(ctx: EngineContext, conditions: Conditions) {
    this.#ctx = ctx
    this.#conditions = conditions
  }

  /**
   * Validates the spec, and starts writing the conditions that report its problems. Returns true if the build may get new
   * servers. Costs nothing while a valid spec stays unchanged.
   */
  validate(build: BuildEntry): boolean {
    const { record } = build
    if (build.deleted || this.#valid.get(build) === record.spec) return true
    const checked = this.#review(record)
    const isValid = !hasCondition(checked, 'Invalid')
    if (checked === record) {
      if (isValid) this.#valid.set(build, record.spec)
    } else if (!build.writing) {
      this.#conditions.startSpecReview(build, (current) => this.#review(current))
    }
    return isValid
  }

  /** Returns the record with the conditions that match its spec, or the same record if nothing changes. */
  #review(record: Build): Build {
    const { clock, limits } = this.#ctx
    const clamped = clampedFields(record.spec, limits.maxServersPerBuild)
    return withSpecProblems(record, { clamped, invalid: this.#problemOf(record) }, clock.now())
  }

  #problemOf(record: Build): string | undefined {
    const { backend, inventory } = this.#ctx
    const { spec } = record
    // A standingBy above max is only clamped, not invalid.
    const bounded = { ...spec, standingBy: Math.min(spec.standingBy, spec.max) }
    const checked = readBuildInput({ metadata: refOf(record), spec: bounded })
    if (!checked.ok) return `${checked.problem.field} ${checked.problem.message}`
    const support = checkForBackend(checked.value, backend.capabilities.template, backend.exec !== undefined)
    if (!support.ok) return `${support.problem.field} ${support.problem.message}`
    const other = inventory.buildByID(spec.buildID)
    if (other && keyOf(other.ref) !== keyOf(record)) {
      return `spec.buildID ${JSON.stringify(spec.buildID)} is already used by build ${keyOf(other.ref)}`
    }
    try {
      backend.check?.(checked.value.spec)
      return undefined
    } catch (error) {
      if (FleetError.is(error, 'invalid')) return error.message
      throw error
    }
  }
}

/** Says which numbers are too large and what is used instead. See `clamped`. */
function clampedFields({ standingBy, max }: BuildSpec, maxServers: number): string | undefined {
  const most = Math.min(max, maxServers)
  const problems: string[] = []
  if (max > maxServers) problems.push(`max ${max} exceeds limits.maxServersPerBuild ${maxServers}; ${most} is used`)
  if (standingBy > max) problems.push(`standingBy ${standingBy} exceeds max ${max}; ${most} is used`)
  return problems.length === 0 ? undefined : problems.join('; ')
}
