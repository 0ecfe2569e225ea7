/** Emits events for changes to builds and servers, and logs those that an operator should act on. Does not modify any state. */
import { messageOf } from '../../contracts/errors.js'
import { reservedMetadataKeys } from '../../rules/game/metadata-keys.js'
import type { Build, BuildSpec, Ending, Server } from '../../rules/model/resources.js'
import { numberOf, sessionsOf } from '../../rules/lifecycle/several-sessions.js'
import { dataChanges } from '../../rules/lifecycle/server-data.js'
import { cutList, cutMessage } from '../../rules/model/sizes.js'
import { buildHealth } from '../../rules/model/status.js'
import { buildEvent, type EngineContext, serverEvent } from '../context.js'
import type { BuildEntry, ServerEntry } from '../state/entries.js'
import type { Activity } from './activity.js'
import { counted } from '../../rules/model/counted.js'

export class EventReporter {
  readonly #ctx: EngineContext
  readonly #activity: Pick<Activity, 'crashed'>

  constructor(ctx: EngineContext, activity: Pick<Activity, 'crashed'>) {
    this.#ctx = ctx
    this.#activity = activity
  }

  buildHealth({ record }: BuildEntry, before: Build): void {
    const { crashes, name } = record
    const health = buildHealth(record)
    if (health === buildHealth(before)) return
    const message = `build ${name} is now ${health}, with ${counted(crashes, 'crash', 'crashes')}`
    this.#ctx.logger.warn({ build: name, health, crashes }, 'build health changed')
    this.#ctx.emitter.emit({ type: 'BuildHealthChanged', ...buildEvent(this.#ctx, record, message), health })
  }

  /** Reports fields of the template that the backend ignores. */
  fieldsSkipped(build: Build, skipped: readonly string[]): void {
    if (skipped.length === 0) return
    const fields = cutList(skipped)
    const { backend, emitter, logger } = this.#ctx
    const message = `the ${backend.name} backend ignores ${fields.join(', ')}`
    logger.info({ build: build.name, backend: backend.name, fields }, 'backend ignores template fields')
    emitter.emit({ type: 'TemplateFieldsSkipped', ...buildEvent(this.#ctx, build, message), fields })
  }

  /** Reports keys of the build's metadata that GSDK clients use themselves, if they differ from those of the spec `before`. */
  metadataKeys(build: Build, before?: BuildSpec): void {
    const reserved = reservedMetadataKeys(build.spec)
    if (reserved.length === 0 || (before && String(reservedMetadataKeys(before)) === String(reserved))) return
    const keys = cutList(reserved)
    const message =
      `build metadata has keys that the GSDK clients use for their own settings: ${keys.join(', ')}; ` +
      'games read the setting instead, so rename these keys'
    this.#ctx.logger.warn({ build: build.name, keys }, 'build metadata has reserved keys')
    this.#ctx.emitter.emit({ type: 'MetadataKeysReserved', ...buildEvent(this.#ctx, build, message), keys })
  }

  serverState(entry: ServerEntry, before: Server): void {
    const { state } = entry.record
    if (state === before.state) return
    const { clock, emitter } = this.#ctx
    // This is on the hot path of allocations, so it avoids object spread.
    emitter.emit({
      type: 'ServerStateChanged',
      at: clock.now(),
      build: entry.build.ref,
      server: entry.ref,
      message: '',
      from: before.state,
      to: state,
    })
  }

  /** The sessions of a server that terminates end with it. */
  sessionEnded(entry: ServerEntry, before: Server): void {
    const { record } = entry
    if (before.state !== 'Active' || !before.session || record.state === 'Terminating') return
    if (record.session === before.session && record.moreSessions === before.moreSessions) return
    const left = new Set(sessionsOf(record).map((session) => numberOf(record, session)))
    const goesOn = record.state === 'StandingBy' ? 'is standing by' : 'goes on with its other sessions'
    for (const session of sessionsOf(before)) {
      if (record.state === 'Active' && left.has(numberOf(before, session))) continue
      const message = `${record.name} has ended the session ${session.id} and ${goesOn}`
      this.#ctx.emitter.emit({ type: 'SessionEnded', ...serverEvent(this.#ctx, entry, message), sessionID: session.id })
    }
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

  maintenance(entry: ServerEntry, before: Server): void {
    const { maintenance, name, node } = entry.record
    if (maintenance?.at === before.maintenance?.at) return
    if (!maintenance) {
      const message = `the announced maintenance of ${name} was withdrawn`
      this.#ctx.emitter.emit({ type: 'MaintenanceWithdrawn', ...serverEvent(this.#ctx, entry, message) })
      return
    }
    const ofNode = maintenance.source !== 'server' && node !== undefined
    const time = new Date(maintenance.at).toISOString()
    const message = ofNode
      ? `maintenance of ${name}'s node ${node} begins at ${time}`
      : `maintenance of ${name} begins at ${time}`
    this.#ctx.emitter.emit({
      type: 'MaintenanceAnnounced',
      ...serverEvent(this.#ctx, entry, message),
      beginsAt: maintenance.at,
      ...(ofNode && { node }),
    })
  }

  serverData(entry: ServerEntry, before: Server): void {
    const { data, name } = entry.record
    if (data === before.data) return
    const changes = dataChanges(before.data, data)
    if (changes.length === 0) return
    const message = cutMessage(`${name}: ${changes.map(({ text }) => text).join('; ')}`)
    const changed = cutList(changes.map(({ path }) => path))
    this.#ctx.emitter.emit({ type: 'ServerDataChanged', ...serverEvent(this.#ctx, entry, message), changed })
  }

  serverTerminating(entry: ServerEntry, ending: Ending): void {
    const { crash, message, reason } = ending
    const { name } = entry.record
    if (crash) this.#ctx.logger.warn({ server: name, reason, cause: message }, 'server crashed')
    if (crash) this.#activity.crashed(entry, ending)
    this.#ctx.emitter.emit({
      type: 'ServerEnding',
      ...serverEvent(this.#ctx, entry, `${name} is terminating: ${message}`),
      reason,
      crash,
    })
  }

  serverLate(entry: ServerEntry, reason: string): void {
    const { name } = entry.record
    this.#ctx.logger.warn({ server: name, reason }, 'server is late')
    this.#ctx.emitter.emit({
      type: 'ServerLate',
      ...serverEvent(this.#ctx, entry, `${name} is late: ${reason}`),
      reason,
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
