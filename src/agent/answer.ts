/** The body of a heartbeat's answer, exactly as the game servers' SDKs expect it. Pure. */
import type { HeartbeatAnswer, SessionConfig } from '../rules/game/heartbeat.js'

/**
 * JSON in ASCII, absent fields left out. Unreal's SDK drops an answer whose character count differs from its
 * `Content-Length`, so whatever is not ASCII is escaped, and the text's length is its length in bytes.
 */
export function answerText(answer: HeartbeatAnswer): string {
  const { operation, nextHeartbeatIntervalMs, sessionConfig } = answer
  return sessionConfig === undefined
    ? `{"operation":"${operation}","nextHeartbeatIntervalMs":${nextHeartbeatIntervalMs}}`
    : `{"operation":"${operation}","nextHeartbeatIntervalMs":${nextHeartbeatIntervalMs},"sessionConfig":${sessionText(sessionConfig)}}`
}

/** A session stands in every answer from its allocation on: it is written once, for as long as the fleet holds it. */
const written = new WeakMap<SessionConfig, string>()

function sessionText(session: SessionConfig): string {
  let text = written.get(session)
  if (text === undefined) {
    const { sessionId, sessionCookie, initialPlayers, metadata } = session
    // JSON.stringify leaves `sessionCookie` out when it is undefined.
    text = ascii(JSON.stringify({ sessionId, sessionCookie, initialPlayers, metadata }))
    written.set(session, text)
  }
  return text
}

/** Escapes UTF-16 unit by unit, so a character beyond the first 65,536 becomes its surrogate pair, as JSON wants it. */
export function ascii(json: string): string {
  return json.replace(/[\u0080-\uffff]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
}
