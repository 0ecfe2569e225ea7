/** Emits events for changes to builds and servers, and logs those that an operator should act on. Does not modify any state. */
import { messageOf } from '../../contracts/errors.js'
import { reservedMetadataKeys } from '../../rules/game/metadata-keys.js'
import { sessionEndReason, type SessionEndReason } from '../../rules/lifecycle/termination.js'
import type { Build, BuildSpec, Ending, EndingReason, Server, Session } from '../../rules/model/resources.js'
import { sessionUid } from '../../rules/lifecycle/server-sessions.js'
import { dataChanges } from '../../rules/lifecycle/server-data.js'
import { cutList, cutMessage } from '../../rules/model/sizes.js'
import { buildHealth } from '../../rules/model/build-status.js'
import { buildEvent, type EngineContext, serverEvent } from '../context.js'
import type { BuildEntry, ServerEntry } from '../state/entries.js'
import type { Activity } from './activity.js'
import type { DemandRecorder } from './demand-recorder.js'
import { counted } from '../../rules/validation/problem.js'

interface WhyEnded {
  readonly reason: SessionEndReason
  readonly cause: string
  readonly at: number
  readonly exitCode?: number | undefined
}

/** Nothing was decided: the process had ended when the fleet heard of it. */
const exitReasons: ReadonlySet<EndingReason> = new Set(['Exited', 'NonZeroExit', 'Gone'])

export class EventReporter {
  readonly #ctx: EngineContext
  readonly #activity: Pick<Activity, 'crashed'>
  readonly #demand: Pick<DemandRecorder, 'sessionEnded'>

  constructor(ctx: EngineContext, activity: Pick<Activity, 'crashed'>, demand: Pick<DemandRecorder, 'sessionEnded'>) {
    this.#ctx = ctx
    this.#activity = activity
    this.#demand = demand
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

  serverState(entry: ServerEntry, before: Server, { state }: Server): void {
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

  /** The game has ended these sessions. Call before that is stored: the report of a host that dies in between is repeated by the next. */
  sessionsEnded(entry: ServerEntry, sessions: readonly Session[]): void {
    const now = this.#ctx.clock.now()
    for (const session of sessions) {
      const reason = session.ending ? 'Ended' : 'Finished'
      this.#sessionEnded(entry, session, { reason, cause: 'its game has ended it', at: now })
    }
  }

  /** The server is gone, and its sessions have ended with it. Call before its record is deleted, which is the only trace of them. */
  serverGone(entry: ServerEntry): void {
    const { ending, ...record } = entry.record
    if (!ending) return
    const { message: cause, exitCode } = ending
    // If the fleet has terminated it, players may have been on it until now.
    const at = exitReasons.has(ending.reason) ? ending.at : this.#ctx.clock.now()
    const reason = sessionEndReason(ending.reason)
    for (const session of record.sessions) this.#sessionEnded(entry, session, { reason, cause, at, exitCode })
  }

  #sessionEnded({ build, players, record, ref }: ServerEntry, session: Session, why: WhyEnded): void {
    const { at, cause, exitCode, reason } = why
    const { id: sessionID, initialPlayers, startedAt } = session
    const durationMs = Math.max(0, at - startedAt)
    const after = ` after ${Math.round(durationMs / 1_000)} s`
    const { emitter, endedSessions } = this.#ctx
    this.#demand.sessionEnded(build, durationMs)
    const event = {
      type: 'SessionEnded' as const,
      at,
      build: build.ref,
      server: ref,
      message: cutMessage(`session ${sessionID} on ${record.name} has ended${after}: ${cause}`),
      sessionID,
      sessionUid: sessionUid(record, session),
      buildID: build.record.spec.buildID,
      reason,
      ...(exitCode !== undefined && { exitCode }),
      startedAt,
      durationMs,
      initialPlayers: cutList(initialPlayers),
      players: cutList(players),
    }
    endedSessions.report(event, emitter)
  }

  serverHealth(entry: ServerEntry, before: Server, { name, health }: Server): void {
    if (health === before.health) return
    this.#ctx.emitter.emit({
      type: 'ServerHealthChanged',
      ...serverEvent(this.#ctx, entry, `${name} is now ${health}`),
      health,
    })
  }

  maintenance(entry: ServerEntry, before: Server, { maintenance, name, node }: Server): void {
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

  serverData(entry: ServerEntry, before: Server, { data, name }: Server): void {
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
