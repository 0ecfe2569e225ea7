/** Tells in events, and in the log where somebody should look, what has become of builds and servers. Changes nothing. */
import type { Build, Ending, Server } from '../../rules/model/resources.js'
import { buildHealth } from '../../rules/model/status.js'
import { buildEvent, type EngineContext, serverEvent } from '../context.js'
import type { BuildEntry, ServerEntry } from '../state/entries.js'

export interface EventReporter {
  /** Its health and its conditions, as far as they are others than before. */
  build(build: BuildEntry, before: Build): void
  state(entry: ServerEntry, before: Server): void
  health(entry: ServerEntry, before: Server): void
  ending(entry: ServerEntry, ending: Ending): void
}

export function eventReporter(ctx: EngineContext): EventReporter {
  const { emitter, logger } = ctx

  function conditions({ record }: BuildEntry, before: Build): void {
    for (const { type, message } of record.conditions) {
      if (before.conditions.some((known) => known.type === type && known.message === message)) continue
      emitter.emit({
        type: 'ConditionChanged',
        ...buildEvent(ctx, record, message),
        condition: type,
        status: true,
      })
    }
    for (const { type } of before.conditions) {
      if (record.conditions.some((condition) => condition.type === type)) continue
      emitter.emit({
        type: 'ConditionChanged',
        ...buildEvent(ctx, record, `build ${record.name}: ${type} is over`),
        condition: type,
        status: false,
      })
    }
  }

  return {
    build(build, before) {
      const { record } = build
      const { crashes, name } = record
      const health = buildHealth(record)
      if (health !== buildHealth(before)) {
        const message = `build ${name} is ${health} now, with ${crashes} crashes`
        logger.warn({ build: name, crashes }, message)
        emitter.emit({ type: 'BuildHealthChanged', ...buildEvent(ctx, record, message), health })
      }
      conditions(build, before)
    },

    state(entry, before) {
      const { name, state } = entry.record
      if (state === before.state) return
      // Spelt out, as every hand-out comes by here.
      const said = serverEvent(ctx, entry, `${name} went from ${before.state} to ${state}`)
      const { at, build, server, message } = said
      emitter.emit({ type: 'ServerStateChanged', at, build, server, message, from: before.state, to: state })
    },

    health(entry, before) {
      const { name, health } = entry.record
      if (health === before.health) return
      emitter.emit({
        type: 'ServerHealthChanged',
        ...serverEvent(ctx, entry, `${name} is ${health} now`),
        health,
      })
    },

    ending(entry, { crash, message, reason }) {
      const { name } = entry.record
      if (crash) logger.warn({ server: name, reason }, `${name} crashed: ${message}`)
      emitter.emit({
        type: 'ServerEnding',
        ...serverEvent(ctx, entry, `${name} ends: ${message}`),
        reason,
        crash,
      })
    },
  }
}
