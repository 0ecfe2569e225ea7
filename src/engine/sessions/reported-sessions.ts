/** Takes what games with several sessions say of them, and tells these games which sessions they have. */
import type { EndedSession, NumberedSessionConfig, SeveralSessions } from '../../rules/game/heartbeat.js'
import { isIdle } from '../../rules/lifecycle/lifecycle.js'
import { endsOne, lastNumber } from '../../rules/lifecycle/sessions.js'
import type { Server, Session } from '../../rules/model/resources.js'
import type { EngineContext } from '../context.js'
import type { ServerEntry, SeveralSources } from '../state/entries.js'
import { isCurrent } from '../state/queries.js'
import { sessionConfigOf } from './session-config.js'

export interface ReportedSessionsDependencies {
  /** Called when the game has said for the first time that it has a session. */
  readonly confirmed: (entry: ServerEntry) => void
  /** Called when the game has ended sessions. That is not durable yet. */
  readonly ended: (entry: ServerEntry, sessions: readonly Session[]) => void
}

export class ReportedSessions {
  readonly #ctx: Pick<EngineContext, 'enqueue' | 'inventory'>
  readonly #deps: ReportedSessionsDependencies

  constructor(ctx: Pick<EngineContext, 'enqueue' | 'inventory'>, deps: ReportedSessionsDependencies) {
    this.#ctx = ctx
    this.#deps = deps
  }

  /** Call with each heartbeat before its state counts, because the server may be given to several callers once it is ready. */
  arrived(entry: ServerEntry, several: SeveralSessions | undefined): void {
    if (entry.takesSeveral === (several !== undefined)) return
    entry.takesSeveral = several !== undefined
    this.#ctx.inventory.slotsChanged(entry)
  }

  /** Call with each heartbeat. `several` is undefined for a game that takes one session. */
  heard(entry: ServerEntry, several: SeveralSessions | undefined): void {
    const { build, record } = entry
    if (record.state === 'StandingBy' && isCurrent(entry) && build.slots?.heard(several !== undefined))
      this.#ctx.enqueue(build)
    if (!several) return
    this.#confirm(entry, several.running)
    // The game had its sessions, even if this host has not heard that.
    this.#confirm(entry, several.ended)
    const isUnknown = record.state === 'Active' && record.sessions.length === 0
    const fresh = several.ended.filter((ended) =>
      isUnknown ? ended.number > lastNumber(record) : isNewEnd(entry, ended),
    )
    if (fresh.length === 0 || (isUnknown && (several.running.length > 0 || entry.sessionEnds))) return
    entry.sessionEnds = [...(entry.sessionEnds ?? []), ...fresh]
    const isFresh = (session: Session) => fresh.some((ended) => endsOne(session, ended))
    this.#deps.ended(entry, record.sessions.filter(isFresh))
  }

  #confirm(entry: ServerEntry, reported: readonly EndedSession[]): void {
    const { record } = entry
    for (const session of record.sessions) {
      const { number } = session
      if (entry.confirmed?.has(number) || !reported.some((one) => endsOne(session, one))) continue
      // Without those that have ended, because the server may have a session at all times.
      const known = record.sessions.map((one) => one.number)
      entry.confirmed = new Set(known.filter((one) => entry.confirmed?.has(one))).add(number)
      this.#deps.confirmed(entry)
    }
  }
}

/** Each report is taken once, although games repeat it. */
function isNewEnd({ record, sessionEnds }: ServerEntry, ended: EndedSession): boolean {
  if (record.state !== 'Active' || sessionEnds?.some(({ number }) => number === ended.number)) return false
  return record.sessions.some((session) => endsOne(session, ended))
}

/** True if heartbeats of the game say that it runs sessions that the record, which has none, knows nothing of. */
export function hasUnknownSession(record: Server, { running }: SeveralSessions): boolean {
  return isIdle(record) && running.some(({ number }) => number > lastNumber(record))
}

/** The sessions of which the game is told: those that are in the store, and of which it has not said that they have ended. */
export function toldSessions({ record, stored, sessionEnds }: ServerEntry): readonly Session[] {
  const isStored = (session: Session) =>
    stored?.sessions.some((other) => other.id === session.id && other.number === session.number) === true
  return record.sessions.filter(
    (session) => isStored(session) && !sessionEnds?.some((ended) => endsOne(session, ended)),
  )
}

export function numberedConfigs(sessions: readonly Session[]): readonly NumberedSessionConfig[] {
  return sessions.map((session) =>
    Object.freeze({
      ...sessionConfigOf(session),
      number: session.number,
      ...(session.ending && { ending: true as const }),
    }),
  )
}

/** True if the list of sessions has to be made again. */
export function isOutdatedList(entry: ServerEntry, sources: SeveralSources | undefined): boolean {
  if (!entry.takesSeveral) return sources !== undefined
  const { record, stored, sessionEnds } = entry
  return sources?.record !== record || sources.stored !== stored || sources.sessionEnds !== sessionEnds
}
