/** The body of a heartbeat answer, exactly as the game server SDKs expect it. Pure. */
import type { HeartbeatAnswer, SessionConfig } from '../rules/game/heartbeat.js'

/**
 * JSON in ASCII, absent fields omitted. Unreal's SDK drops an answer whose character count differs from its
 * `Content-Length`, so non-ASCII characters are escaped and the text's length is its length in bytes.
 */
export function answerText(answer: HeartbeatAnswer): string {
  const { operation, nextHeartbeatIntervalMs, sessionConfig } = answer
  return sessionConfig === undefined
    ? `{"operation":"${operation}","nextHeartbeatIntervalMs":${nextHeartbeatIntervalMs}}`
    : `{"operation":"${operation}","nextHeartbeatIntervalMs":${nextHeartbeatIntervalMs},"sessionConfig":${sessionText(sessionConfig)}}`
}

/** Every answer after the allocation repeats the session, so its text is cached as long as the fleet holds the session. */
const sessionTexts = new WeakMap<SessionConfig, string>()

function sessionText(session: SessionConfig): string {
  let text = sessionTexts.get(session)
  if (text === undefined) {
    const { sessionId, sessionCookie, initialPlayers, metadata } = session
    // JSON.stringify omits `sessionCookie` when it is undefined.
    text = ascii(JSON.stringify({ sessionId, sessionCookie, initialPlayers, metadata }))
    sessionTexts.set(session, text)
  }
  return text
}

/** Escapes each UTF-16 unit, so a character beyond U+FFFF becomes a surrogate pair, as JSON requires. */
export function ascii(json: string): string {
  return json.replace(/[\u0080-\uffff]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
}
