/**
 * Reports sessions that exceed the build's limit through the `LongSession` condition. If `endLongSessions` is set,
 * terminates their servers.
 */
import { transition } from '../../rules/lifecycle/lifecycle.js'
import type { EngineContext } from '../context.js'
import type { Conditions } from '../reporting/conditions.js'
import type { BuildEntry, ServerEntry } from '../state/entries.js'
import { counted } from '../../rules/model/counted.js'

/** Maximum number of servers named in the condition's message. */
const maxNames = 5

export class LongSessions {
  readonly #ctx: EngineContext
  readonly #conditions: Conditions

  constructor(ctx: EngineContext, conditions: Conditions) {
    this.#ctx = ctx
    this.#conditions = conditions
  }

  /** Checks the sessions of a build. If `limitMs` is undefined, no session is too long. */
  check(build: BuildEntry, limitMs: number | undefined): void {
    const long: ServerEntry[] = []
    const now = this.#ctx.clock.elapsed()
    for (const entry of limitMs === undefined ? [] : build.buckets.active) {
      if (now - (entry.activeSince ?? now) < (limitMs ?? Infinity)) break
      // Of a session that its game has ended, only the record is left.
      if (!entry.ends) long.push(entry)
    }
    const seconds = (limitMs ?? 0) / 1000
    if (build.record.spec.health?.endLongSessions) this.#end(long, seconds)
    const message = long.length > 0 ? describe(long, seconds) : undefined
    this.#conditions.update(build, 'LongSession', 'SessionTooLong', message)
  }

  #end(long: readonly ServerEntry[], seconds: number): void {
    const { clock, inventory } = this.#ctx
    const message = `its session exceeded the build's limit of ${seconds} s`
    for (const entry of long) {
      const event = { type: 'end' as const, reason: 'SessionTooLong' as const, message }
      inventory.update(entry, transition(entry.record, event, clock.now()))
    }
  }
}

function describe(long: readonly ServerEntry[], seconds: number): string {
  const names = long.slice(0, maxNames).map((entry) => entry.record.name)
  const more = long.length > maxNames ? '…' : ''
  return `${counted(long.length, 'session exceeds', 'sessions exceed')} the limit of ${seconds} s: ${names.join(', ')}${more}`
}
