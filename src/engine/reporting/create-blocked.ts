/** Tells that a server cannot be started now, and why: in an event, and as a condition of its build until one starts again. */
import { FleetError, messageOf } from '../../contracts/errors.js'
import { withCondition } from '../../rules/model/status.js'
import type { BuildWriter } from '../persistence/build-writer.js'
import { type EngineContext, serverEvent } from '../context.js'
import type { ServerEntry } from '../state/entries.js'

export function blocked(
  ctx: EngineContext,
  writer: BuildWriter,
): (entry: ServerEntry, error: unknown) => Promise<void> {
  return async (entry, error) => {
    const { build, record } = entry
    const message = messageOf(error)
    ctx.emitter.emit({
      type: 'ServerStartFailed',
      ...serverEvent(ctx, entry, `${record.name} could not be started yet: ${message}`),
      reason: message,
    })
    if (build.deleted) return
    const reason = FleetError.is(error) ? error.code : 'internal'
    await writer.change(build, (before) => {
      // Each server that waits fails again and again, and by its name alone in other words: told already, it is not written again.
      const said = message.replaceAll(record.name, `${record.build}-…`)
      const condition = { type: 'CreateBlocked' as const, reason, message: said, since: ctx.clock.now() }
      const conditions = withCondition(before.conditions, condition)
      return conditions === before.conditions ? before : { ...before, conditions }
    })
  }
}
