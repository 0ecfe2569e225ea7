/**
 * Looks at specs that were written past the API, such as by `kubectl edit`: whoever wrote them was refused nothing, so what breaks
 * a rule is told in a condition. A build that breaks one goes on with what it has.
 */
import { FleetError, messageOf } from '../../contracts/errors.js'
import { type Build, type BuildSpec, type Condition, keyOf } from '../../rules/model/resources.js'
import { withCondition, withoutCondition } from '../../rules/model/status.js'
import { checkForBackend, readBuildInput } from '../../rules/validation/requests.js'
import type { BuildWriter } from '../persistence/build-writer.js'
import { buildEvent, type EngineContext, refOf } from '../context.js'
import type { BuildEntry } from '../state/entries.js'

export interface SpecValidation {
  /**
   * True when its spec breaks a rule: nothing may be created by it. Costs nothing while the spec is what it was, and right. What is
   * to be told of it is written by and by.
   */
  breaksRule(build: BuildEntry): boolean
  /** The record with the conditions that tell what is wrong with its spec; the same one when they are there already. */
  reviewed(record: Build): Build
}

type SpecCondition = Extract<Condition['type'], 'Clamped' | 'Invalid'>

export function specValidation(ctx: EngineContext, builds: Pick<BuildWriter, 'change'>): SpecValidation {
  const { backend, clock, inventory } = ctx
  /** What each was last seen to say that breaks no rule. */
  const right = new WeakMap<BuildEntry, BuildSpec>()

  function reviewed(record: Build): Build {
    const { standingBy, max } = record.spec
    const clamped = standingBy > max && `standingBy is ${standingBy} and max is ${max}: standingBy counts as ${max}`
    const invalid = problemOf(record)
    const conditions = tell(tell(record.conditions, 'Clamped', 'AboveMax', clamped), 'Invalid', 'BadSpec', invalid)
    return conditions === record.conditions ? record : { ...record, conditions }
  }

  function tell(
    conditions: readonly Condition[],
    type: SpecCondition,
    reason: string,
    message: string | false | undefined,
  ): readonly Condition[] {
    if (!message) return withoutCondition(conditions, type)
    return withCondition(conditions, { type, reason, message, since: clock.now() })
  }

  function problemOf(record: Build): string | undefined {
    const { spec } = record
    // What is only out of bounds is clamped.
    const bounded = { ...spec, standingBy: Math.min(spec.standingBy, spec.max) }
    const checked = readBuildInput({ metadata: refOf(record), spec: bounded })
    if (!checked.ok) return `${checked.problem.field} ${checked.problem.message}`
    const support = checkForBackend(checked.value.spec, backend.capabilities.template)
    if (!support.ok) return `${support.problem.field} ${support.problem.message}`
    const other = inventory.buildByID(spec.buildID)
    if (other && keyOf(other.ref) !== keyOf(record)) {
      return `spec.buildID ${JSON.stringify(spec.buildID)} is already the buildID of build ${keyOf(other.ref)}`
    }
    try {
      backend.check?.(checked.value.spec)
      return undefined
    } catch (error) {
      if (FleetError.is(error, 'invalid')) return error.message
      throw error
    }
  }

  return {
    reviewed,
    breaksRule(build) {
      const { record } = build
      if (!ctx.store.shared || build.deleted || right.get(build) === record.spec) return false
      const next = reviewed(record)
      const isRight = !isInvalid(next)
      if (next === record) {
        if (isRight) right.set(build, record.spec)
      } else if (!build.writing) {
        builds.change(build, reviewed).catch((error: unknown) => {
          ctx.emitter.emit({ type: 'ReconcileFailed', ...buildEvent(ctx, build.record, messageOf(error)) })
        })
      }
      return !isRight
    },
  }
}

/** Its record tells that its spec breaks a rule. */
export function isInvalid({ conditions }: Build): boolean {
  return conditions.some(({ type }) => type === 'Invalid')
}
