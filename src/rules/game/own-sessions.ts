/**
 * What a game that takes several sessions knows of them: which run, and which it reports as ended. Pure.
 *
 * The fleet lists all sessions of the server in each answer, and numbers only rise. So a listed session that does not run here is new if its
 * number is higher than any before, and has otherwise ended: its end is reported until the fleet lists it no longer, and again if another
 * host lists it again.
 */
import type { EndedSession, NumberedSessionConfig, SeveralSessions } from './heartbeat.js'

interface OwnSessions {
  readonly running: readonly NumberedSessionConfig[]
  /** The ends to report: the last one, and those of sessions that the fleet may still list. */
  readonly ended: readonly EndedSession[]
  /** The highest number of a session so far. */
  readonly highest: number
}

export const noOwnSessions: OwnSessions = Object.freeze({ running: [], ended: [], highest: 0 })

interface AfterAnswer {
  readonly own: OwnSessions
  readonly begun: readonly NumberedSessionConfig[]
  /** Those that the game is asked to end, and was not before. */
  readonly ending: readonly NumberedSessionConfig[]
}

/** `listed`: all sessions in an answer. */
export function afterAnswer(own: OwnSessions, listed: readonly NumberedSessionConfig[]): AfterAnswer {
  const begun = listed.filter(({ number }) => number > own.highest)
  const ending: NumberedSessionConfig[] = begun.filter((session) => session.ending)
  const running = own.running.map((session) => {
    const now = listed.find(({ number }) => number === session.number)
    if (!now?.ending || session.ending) return session
    const asked = { ...session, ending: true as const }
    ending.push(asked)
    return asked
  })
  const overdue = listed.filter(
    ({ number }) => number <= own.highest && !running.some((session) => session.number === number),
  )
  const last = own.ended.reduce<readonly EndedSession[]>(
    ([highest], ended) => [highest && highest.number > ended.number ? highest : ended],
    [],
  )
  const ended = [...last, ...overdue.map(endOf).filter(({ number }) => number !== last[0]?.number)]
  const highest = begun.reduce((most, { number }) => Math.max(most, number), own.highest)
  return { own: { running: [...running, ...begun], ended, highest }, begun, ending }
}

/** The game has ended one of its sessions. */
export function afterOwnEnd(own: OwnSessions, number: number): OwnSessions {
  const session = own.running.find((one) => one.number === number)
  if (!session) return own
  return { ...own, running: own.running.filter((one) => one !== session), ended: [...own.ended, endOf(session)] }
}

/** What the game's heartbeats say. */
export function reportOf({ running, ended }: OwnSessions): SeveralSessions {
  return { running: running.map(endOf), ended }
}

function endOf({ sessionId, number }: NumberedSessionConfig): EndedSession {
  return { sessionID: sessionId, number }
}
