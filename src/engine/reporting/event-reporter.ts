/** Emits events for changes to builds and servers, and logs those that an operator should act on. Does not modify any state. */
import { messageOf } from '../../contracts/errors.js'
import type { Build, Ending, Server } from '../../rules/model/resources.js'
import { buildHealth } from '../../rules/model/status.js'
import { buildEvent, type EngineContext, serverEvent } from '../context.js'
import type { BuildEntry, ServerEntry } from '../state/entries.js'

export class EventReporter {
  readonly #ctx: EngineContext

  constructor(ctx: EngineContext) {
    this.#ctx = ctx
  }

  buildHealth({ record }: BuildEntry, before: Build): void {
    const { crashes, name } = record
    const health = buildHealth(record)
    if (health === buildHealth(before)) return
    const message = `build ${name} is now ${health}, with ${crashes} crashes`
    this.#ctx.logger.warn({ build: name, health, crashes }, 'build health changed')
    this.#ctx.emitter.emit({ type: 'BuildHealthChanged', ...buildEvent(this.#ctx, record, message), health })
  }

  /** Reports fields of the template that the backend ignores. */
  fieldsSkipped(build: Build, fields: readonly string[]): void {
    if (fields.length === 0) return
    const { backend, emitter, logger } = this.#ctx
    const message = `the ${backend.name} backend ignores ${fields.join(', ')}`
    logger.info({ build: build.name, backend: backend.name, fields }, 'backend ignores template fields')
    emitter.emit({ type: 'TemplateFieldsSkipped', ...buildEvent(this.#ctx, build, message), fields })
  }

  serverState(entry: ServerEntry, before: Server): void {
    const { name, state } = entry.record
    if (state === before.state) return
    // This is on the hot path of allocations, so it avoids object spread.
    const { at, build, server, message } = serverEvent(
      this.#ctx,
      entry,
      `${name} went from ${before.state} to ${state}`,
    )
    this.#ctx.emitter.emit({
      type: 'ServerStateChanged',
      at,
      build,
      server,
      message,
      from: before.state,
      to: state,
    })
  }

  serverHealth(entry: ServerEntry, before: Server): void {
    const { name, health } = entry.record
    if (health === before.health) return
    this.#ctx.emitter.emit({
      type: 'ServerHealthChanged',
      ...serverEvent(this.#ctx, entry, `${name} is now ${health}`),
      health,
    })
  }

  serverTerminating(entry: ServerEntry, { crash, message, reason }: Ending): void {
    const { name } = entry.record
    if (crash) this.#ctx.logger.warn({ server: name, reason, cause: message }, 'server crashed')
    this.#ctx.emitter.emit({
      type: 'ServerEnding',
      ...serverEvent(this.#ctx, entry, `${name} is terminating: ${message}`),
      reason,
      crash,
    })
  }

  startFailed(entry: ServerEntry, error: unknown): void {
    const reason = messageOf(error)
    this.#ctx.emitter.emit({
      type: 'ServerStartFailed',
      ...serverEvent(this.#ctx, entry, `${entry.record.name} could not be started: ${reason}`),
      reason,
    })
  }
}
