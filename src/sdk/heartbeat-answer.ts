/** Reads the agent's answer to a heartbeat, and knows sessions in it that have ended. Lenient, because other GSDK agents omit or add fields. */
import type { EndedSession, NumberedSessionConfig, SessionConfig } from '../rules/game/heartbeat.js'
import { isObject, shown } from '../rules/validation/problem.js'

export interface Answer {
  /** `Continue`, `Active`, `Terminate`, or an operation that a newer agent added. */
  readonly operation: string
  readonly nextHeartbeatIntervalMs?: number
  readonly session?: SessionConfig
  /** All sessions, if the agent lists them, as it does for games that take several. */
  readonly sessions?: readonly NumberedSessionConfig[]
  /** How many sessions the process has ended, according to the fleet. 0 if it is not told. */
  readonly endedSessions: number
  /** When announced maintenance begins, wall time in ms. */
  readonly maintenanceAt?: number
}

/** Throws an Error that quotes `text` if it is not a valid answer. */
export function readAnswer(text: string): Answer {
  const body = parse(text)
  if (!isObject(body) || typeof body['operation'] !== 'string') throw new Error(`not an answer: ${shown(text)}`)
  const interval = body['nextHeartbeatIntervalMs']
  const ended = body['endedSessions']
  const session = sessionOf(body['sessionConfig'])
  const sessions = body['sessions']
  const maintenanceAt = timeOf(body['nextScheduledMaintenanceUtc'])
  return {
    operation: body['operation'],
    endedSessions: typeof ended === 'number' ? ended : 0,
    ...(typeof interval === 'number' && interval > 0 ? { nextHeartbeatIntervalMs: interval } : {}),
    ...(session === undefined ? {} : { session }),
    ...(Array.isArray(sessions) ? { sessions: sessions.flatMap((one) => numberedOf(one) ?? []) } : {}),
    ...(maintenanceAt === undefined ? {} : { maintenanceAt }),
  }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined // The caller reports the error and quotes the text.
  }
}

function timeOf(value: unknown): number | undefined {
  const ms = typeof value === 'string' ? Date.parse(value) : NaN
  return Number.isNaN(ms) ? undefined : ms
}

/** Returns undefined if there is no session id. */
function sessionOf(value: unknown): SessionConfig | undefined {
  if (!isObject(value)) return undefined
  const { sessionId, sessionCookie, initialPlayers } = value
  if (typeof sessionId !== 'string' || sessionId === '') return undefined
  const players = Array.isArray(initialPlayers) ? initialPlayers.filter((id) => typeof id === 'string') : []
  return Object.freeze({
    sessionId,
    ...(typeof sessionCookie === 'string' ? { sessionCookie } : {}),
    initialPlayers: Object.freeze(players),
  })
}

function numberedOf(value: unknown): NumberedSessionConfig | undefined {
  const session = sessionOf(value)
  if (!session || !isObject(value) || typeof value['number'] !== 'number') return undefined
  return { ...session, number: value['number'], ...(value['ending'] === true ? { ending: true } : {}) }
}

/** As many as may still be in answers and stores that are older than the end. */
const maxRemembered = 100

/**
 * The sessions that this process has ended. Each heartbeat reports the last one, so a report is never lost while the process runs, and
 * says how many there were, so a late one is recognized.
 */
export class EndsInAnswer {
  readonly #ids = new Set<string>()
  #count = 0
  #report: object = Object.freeze({})
  #last: EndedSession | undefined

  /** Fields of each heartbeat: none before a session has ended. */
  get report(): object {
    return this.#report
  }

  /** The session that has ended last. */
  get last(): EndedSession | undefined {
    return this.#last
  }

  add(sessionID: string): void {
    this.#count++
    this.#ids.delete(sessionID)
    this.#ids.add(sessionID)
    for (const oldest of this.#ids) {
      if (this.#ids.size <= maxRemembered) break
      this.#ids.delete(oldest)
    }
    this.#reportEnd(sessionID)
  }

  /**
   * True if the session in an answer is one that has ended: the fleet knows of `endedSessions` ends, which is not all of them. Its end is
   * then reported again. A later session may have the same id.
   */
  include(sessionID: string, endedSessions: number): boolean {
    if (endedSessions >= this.#count || !this.#ids.has(sessionID)) return false
    this.#reportEnd(sessionID)
    return true
  }

  #reportEnd(sessionID: string): void {
    this.#last = { sessionID, number: this.#count }
    this.#report = Object.freeze({ EndedSession: { SessionId: sessionID, Number: this.#count } })
  }
}
