/** Reports sessions that exceed the build's limit in the `LongSession` condition, and ends them if the build says so. */
import { messageOf } from '../../contracts/errors.js'
import { transition } from '../../rules/lifecycle/lifecycle.js'
import { withCondition, withoutCondition } from '../../rules/model/status.js'
import { buildEvent, type EngineContext } from '../context.js'
import type { BuildWriter } from '../persistence/build-writer.js'
import type { BuildEntry, ServerEntry } from '../state/entries.js'

/** Servers that the condition's message names. */
const maxNames = 5

export class LongSessions {
  readonly #ctx: EngineContext
  readonly #buildWriter: Pick<BuildWriter, 'change'>

  constructor(ctx: EngineContext, buildWriter: Pick<BuildWriter, 'change'>) {
    this.#ctx = ctx
    this.#buildWriter = buildWriter
  }

  /** Without a limit no session is too long. */
  check(build: BuildEntry, limitMs: number | undefined): void {
    const long: ServerEntry[] = []
    const now = this.#ctx.clock.elapsed()
    for (const entry of limitMs === undefined ? [] : build.buckets.active) {
      if (now - (entry.activeSince ?? now) < (limitMs ?? Infinity)) break
      long.push(entry)
    }
    const seconds = (limitMs ?? 0) / 1000
    if (build.record.spec.health?.endLongSessions) this.#end(long, seconds)
    this.#updateCondition(build, seconds, long)
  }

  #end(long: readonly ServerEntry[], seconds: number): void {
    const { clock, inventory } = this.#ctx
    const message = `its session exceeded the build's limit of ${seconds} s`
    for (const entry of long) {
      const event = { type: 'end' as const, reason: 'SessionTooLong' as const, message }
      inventory.update(entry, transition(entry.record, event, clock.now()))
    }
  }

  #updateCondition(build: BuildEntry, seconds: number, long: readonly ServerEntry[]): void {
    const { clock, emitter } = this.#ctx
    const current = build.record.conditions.find(({ type }) => type === 'LongSession')
    const message = describe(long, seconds)
    if (build.writing || build.deleted || (long.length === 0 ? !current : current?.message === message)) return
    this.#buildWriter
      .change(build, (record) => ({
        ...record,
        conditions:
          long.length === 0
            ? withoutCondition(record.conditions, 'LongSession')
            : withCondition(record.conditions, {
                type: 'LongSession',
                reason: 'SessionTooLong',
                message,
                since: clock.now(),
              }),
      }))
      .catch((error: unknown) => {
        emitter.emit({ type: 'ReconcileFailed', ...buildEvent(this.#ctx, build.record, messageOf(error)) })
      })
  }
}

function describe(long: readonly ServerEntry[], seconds: number): string {
  const names = long.slice(0, maxNames).map((entry) => entry.record.name)
  const more = long.length > maxNames ? '…' : ''
  return `${long.length} sessions exceed the limit of ${seconds} s: ${names.join(', ')}${more}`
}
