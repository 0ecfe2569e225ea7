/** The body of a heartbeat answer, in the exact format that game server SDKs expect. Pure. */
import type { ServerResponse } from 'node:http'
import type {
  HeartbeatAnswer,
  MaintenanceNotice,
  NumberedSessionConfig,
  SessionConfig,
} from '../rules/game/heartbeat.js'

/**
 * Returns ASCII JSON without absent fields. Unreal's SDK drops an answer whose number of characters differs from its
 * `Content-Length`, so non-ASCII characters are escaped and each character is one byte.
 */
export function answerText(answer: HeartbeatAnswer): string {
  const { operation, nextHeartbeatIntervalMs, sessionConfig, endedSessions, sessions, maintenance } = answer
  let text = `{"operation":"${operation}","nextHeartbeatIntervalMs":${nextHeartbeatIntervalMs}`
  if (sessionConfig !== undefined) text += `,"sessionConfig":${sessionText(sessionConfig)}`
  if (endedSessions !== undefined) text += `,"endedSessions":${endedSessions}`
  if (sessions !== undefined) text += `,"sessions":${sessionsText(sessions)}`
  if (maintenance !== undefined) text += `,${maintenanceText(maintenance)}`
  return `${text}}`
}

/**
 * Caches the JSON of a session, since every answer after the allocation repeats it. An entry is dropped with its session.
 */
const sessionTexts = new WeakMap<SessionConfig, string>()

function sessionText(session: SessionConfig): string {
  let text = sessionTexts.get(session)
  if (text === undefined) {
    const { sessionId, sessionCookie, initialPlayers } = session
    // JSON.stringify omits `sessionCookie` if it is undefined.
    text = ascii(JSON.stringify({ sessionId, sessionCookie, initialPlayers }))
    sessionTexts.set(session, text)
  }
  return text
}

/** Caches the JSON of all sessions of a game that takes several, since answers repeat it while they stay the same. */
const listTexts = new WeakMap<readonly NumberedSessionConfig[], string>()

function sessionsText(sessions: readonly NumberedSessionConfig[]): string {
  let text = listTexts.get(sessions)
  if (text === undefined) {
    const fields = sessions.map(({ sessionId, number, sessionCookie, initialPlayers, ending }) => {
      return { sessionId, number, sessionCookie, initialPlayers, ending }
    })
    text = ascii(JSON.stringify(fields))
    listTexts.set(sessions, text)
  }
  return text
}

/** Caches the fields of a notice, since every answer repeats them while the maintenance is announced. */
const maintenanceTexts = new WeakMap<MaintenanceNotice, string>()

function maintenanceText(notice: MaintenanceNotice): string {
  let text = maintenanceTexts.get(notice)
  if (text === undefined) {
    text = ascii(JSON.stringify(notice).slice(1, -1))
    maintenanceTexts.set(notice, text)
  }
  return text
}

/** Escapes each UTF-16 code unit. A character above U+FFFF becomes a surrogate pair, as JSON requires. */
export function ascii(json: string): string {
  return json.replace(/[\u0080-\uffff]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
}

export function refuse(response: ServerResponse, status: number, message: string): void {
  send(response, status, ascii(JSON.stringify({ error: message })))
}

/** `text` must be ASCII: its length is used as the length in bytes. */
export function send(response: ServerResponse, status: number, text: string): void {
  response.writeHead(status, {
    'Content-Type': 'application/json',
    'Content-Length': text.length,
  })
  response.end(text)
}
