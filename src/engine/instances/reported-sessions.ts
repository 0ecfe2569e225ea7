/** Takes what games with several sessions say of them, and tells these games which sessions they have. */
import type { EndedSession, NumberedSessionConfig, SessionConfig, SeveralSessions } from '../../rules/game/heartbeat.js'
import { isIdle } from '../../rules/lifecycle/lifecycle.js'
import { endsOne, lastNumber } from '../../rules/lifecycle/sessions.js'
import type { Server, Session } from '../../rules/model/resources.js'
import type { EngineContext } from '../context.js'
import type { ServerEntry, SeveralSources } from '../state/entries.js'
import { hasEnded, isCurrent } from '../state/queries.js'

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
    if (entry.isShared === (several !== undefined)) return
    entry.isShared = several !== undefined
    this.#ctx.inventory.slotsChanged(entry)
  }

  /** Call with each heartbeat. `several` is undefined for a game that takes one session. */
  heard(entry: ServerEntry, several: SeveralSessions | undefined): void {
    const { build, record } = entry
    if (record.state === 'StandingBy' && isCurrent(entry) && build.slots?.heard(several !== undefined))
      this.#ctx.enqueue(build)
    if (!several) return
    for (const session of record.sessions) {
      if (several.running.some((one) => endsOne(session, one))) this.confirm(entry, session)
    }
    // If the record has lost the game's sessions, its server stays Active until the last of them has ended.
    if (record.sessions.length > 0 || several.running.length === 0) this.ended(entry, several.ended)
  }

  /** The game says that it has the session. An answer that contains it may be lost, and Unreal reads it an interval late. */
  confirm(entry: ServerEntry, session: Session | undefined): void {
    const { confirmed, record } = entry
    if (!session || confirmed.includes(session.number)) return
    // Without those that have ended, because the server may have a session at all times.
    const known = confirmed.filter((number) => record.sessions.some((one) => one.number === number))
    entry.confirmed = [...known, session.number]
    this.#deps.confirmed(entry)
  }

  /**
   * The game says that it has ended these sessions, and repeats it in every heartbeat. That counts once it is durable: until then, no other session
   * gets their places, nor do they get another server.
   */
  ended(entry: ServerEntry, reports: readonly EndedSession[]): void {
    const fresh = reports.filter((report) => isNews(entry, report))
    if (fresh.length === 0) return
    const sessions = entry.record.sessions.filter((session) => fresh.some((report) => endsOne(session, report)))
    // The game had them, even if this host has not heard that.
    for (const session of sessions) this.confirm(entry, session)
    entry.ends = [...(entry.ends ?? []), ...fresh]
    this.#deps.ended(entry, sessions)
  }
}

function isNews(entry: ServerEntry, report: EndedSession): boolean {
  const { ends, record } = entry
  if (record.state !== 'Active') return false
  if (record.sessions.length === 0) return report.number > lastNumber(record) && !ends
  return record.sessions.some((session) => endsOne(session, report) && !hasEnded(entry, session))
}

/** True if heartbeats of the game say that it runs sessions that the record, which has none, knows nothing of. */
export function hasUnknownSession(record: Server, { running }: SeveralSessions): boolean {
  return isIdle(record) && running.some(({ number }) => number > lastNumber(record))
}

/** The sessions of which the game is told: those of which it has not said that they have ended. */
export function toldSessions(entry: ServerEntry): readonly Session[] {
  return entry.record.sessions.filter((session) => !hasEnded(entry, session))
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
  if (!entry.isShared) return sources !== undefined
  const { ends, record } = entry
  return sources?.record !== record || sources.ends !== ends
}

/** A session, as its game gets it. */
export function sessionConfigOf({ id, cookie, initialPlayers }: Session): SessionConfig {
  return Object.freeze({
    sessionId: id,
    ...(cookie !== undefined && { sessionCookie: cookie }),
    initialPlayers,
  })
}
