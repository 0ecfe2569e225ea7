/**
 * Sets and clears the conditions of builds, and reports their changes as events. No other module does so. The `with…`
 * functions only compute a record; the methods of `Conditions` write it.
 */
import { FleetError, messageOf } from '../../contracts/errors.js'
import type { Build, BuildCrash, Condition, ConditionType } from '../../rules/model/resources.js'
import { cutMessage } from '../../rules/model/sizes.js'
import { crashText, withCondition, withoutCondition } from '../../rules/model/build-status.js'
import { buildEvent, type EngineContext } from '../context.js'
import type { BuildWriter } from '../persistence/build-writer.js'
import type { BuildEntry, ServerEntry } from '../state/entries.js'

/** Problems with a spec that was edited in the store. */
export interface SpecProblems {
  /** Message if standingBy is above max, so that max is used instead. */
  readonly clamped: string | undefined
  /** Message if the spec is invalid, so that the build gets no new servers. */
  readonly invalid: string | undefined
}

export function hasCondition({ conditions }: Build, type: ConditionType): boolean {
  return conditions.some((condition) => condition.type === type)
}

export function withDraining(record: Build, isDraining: boolean, now: number): Build {
  const message = 'drained by an operator; no allocations and no new servers until it is resumed'
  return {
    ...record,
    conditions: isDraining
      ? withCondition(record.conditions, { type: 'Draining', reason: 'Drained', message, since: now })
      : withoutCondition(record.conditions, 'Draining'),
  }
}

export function withCrashing(record: Build, crash: BuildCrash, now: number): Build {
  const message = cutMessage(`${crash.server}: ${crashText(crash)}`)
  const condition = { type: 'Crashing', reason: crash.reason, message, since: now } as const
  return { ...record, conditions: withCondition(record.conditions, condition) }
}

/** Returns the same record if its conditions do not change. */
export function withSpecProblems(record: Build, { clamped, invalid }: SpecProblems, now: number): Build {
  const bounded = setOrClear(record.conditions, 'Clamped', 'AboveMax', clamped, now)
  return withConditions(record, setOrClear(bounded, 'Invalid', 'BadSpec', invalid, now))
}

function setOrClear(
  conditions: readonly Condition[],
  type: ConditionType,
  reason: string,
  message: string | undefined,
  since: number,
): readonly Condition[] {
  return message ? withCondition(conditions, { type, reason, message, since }) : withoutCondition(conditions, type)
}

function withConditions(record: Build, conditions: readonly Condition[]): Build {
  return conditions === record.conditions ? record : { ...record, conditions }
}

export class Conditions {
  readonly #ctx: EngineContext
  readonly #builds: Pick<BuildWriter, 'change'>

  constructor(ctx: EngineContext, builds: Pick<BuildWriter, 'change'>) {
    this.#ctx = ctx
    this.#builds = builds
  }

  /** Sets the condition that says why this server cannot be started. Resolves when the record is written. */
  setCreateBlocked({ build, record }: ServerEntry, error: unknown): Promise<void> {
    const reason = FleetError.is(error) ? error.code : 'internal'
    // Omits the server's name, so that another server that fails for the same reason causes no write.
    const message = messageOf(error).replaceAll(record.name, `${record.build}-…`)
    return this.#builds.change(build, (before) =>
      withConditions(
        before,
        withCondition(before.conditions, { type: 'CreateBlocked', reason, message, since: this.#ctx.clock.now() }),
      ),
    )
  }

  /** Clears a condition. Resolves when the record is written. */
  clear(build: BuildEntry, type: ConditionType): Promise<void> {
    return this.#builds.change(build, (record) => ({
      ...record,
      conditions: withoutCondition(record.conditions, type),
    }))
  }

  /** Starts clearing a condition. A failure is reported as an event. */
  startClearing(build: BuildEntry, type: ConditionType): void {
    this.clear(build, type).catch((error: unknown) => this.#reportFailure(build, error))
  }

  /** Starts writing the conditions that `review` computes for the latest record. A failure is reported as an event. */
  startSpecReview(build: BuildEntry, review: (record: Build) => Build): void {
    this.#builds.change(build, review).catch((error: unknown) => this.#reportFailure(build, error))
  }

  /** Starts setting a condition with this message, or clearing it if there is none. Writes nothing if nothing changes. */
  update(build: BuildEntry, type: ConditionType, reason: string, message: string | undefined): void {
    const current = build.record.conditions.find((condition) => condition.type === type)
    if (build.writing || build.deleted || current?.message === message) return
    const { clock } = this.#ctx
    this.#builds
      .change(build, (record) => ({
        ...record,
        conditions: setOrClear(record.conditions, type, reason, message, clock.now()),
      }))
      .catch((error: unknown) => this.#reportFailure(build, error))
  }

  /** Emits an event for each condition that was set, changed or cleared. */
  reportChanges({ record }: BuildEntry, before: Build): void {
    for (const { type, message } of record.conditions) {
      if (before.conditions.some((old) => old.type === type && old.message === message)) continue
      this.#reportChange(record, type, true, message)
    }
    for (const { type } of before.conditions) {
      if (hasCondition(record, type)) continue
      this.#reportChange(record, type, false, `build ${record.name}: condition ${type} cleared`)
    }
  }

  #reportChange(record: Build, condition: ConditionType, status: boolean, message: string): void {
    this.#ctx.emitter.emit({ type: 'ConditionChanged', ...buildEvent(this.#ctx, record, message), condition, status })
  }

  #reportFailure({ record }: BuildEntry, error: unknown): void {
    this.#ctx.emitter.emit({ type: 'ReconcileFailed', ...buildEvent(this.#ctx, record, messageOf(error)) })
  }
}
