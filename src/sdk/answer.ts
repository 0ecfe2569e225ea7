/** Reads the agent's answer to a heartbeat. Pure. Lenient, because other GSDK agents omit or add fields. */
import type { SessionConfig } from '../rules/game/heartbeat.js'
import { isObject, shown } from '../rules/validation/problem.js'

export interface Answer {
  /** `Continue`, `Active`, `Terminate`, or an operation that a newer agent added. */
  readonly operation: string
  readonly nextHeartbeatIntervalMs?: number
  readonly session?: SessionConfig
}

/** Throws an Error that quotes `text` if it is not a valid answer. */
export function readAnswer(text: string): Answer {
  const body = parse(text)
  if (!isObject(body) || typeof body['operation'] !== 'string') throw new Error(`not an answer: ${shown(text)}`)
  const interval = body['nextHeartbeatIntervalMs']
  const session = sessionOf(body['sessionConfig'])
  return {
    operation: body['operation'],
    ...(typeof interval === 'number' && interval > 0 ? { nextHeartbeatIntervalMs: interval } : {}),
    ...(session === undefined ? {} : { session }),
  }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined // The caller reports the error and quotes the text.
  }
}

/** Returns undefined if there is no session id. */
function sessionOf(value: unknown): SessionConfig | undefined {
  if (!isObject(value)) return undefined
  const { sessionId, sessionCookie, initialPlayers, metadata } = value
  if (typeof sessionId !== 'string' || sessionId === '') return undefined
  const players = Array.isArray(initialPlayers) ? initialPlayers.filter((id) => typeof id === 'string') : []
  const entries = isObject(metadata) ? Object.entries(metadata) : []
  return Object.freeze({
    sessionId,
    ...(typeof sessionCookie === 'string' ? { sessionCookie } : {}),
    initialPlayers: Object.freeze(players),
    metadata: Object.freeze(Object.fromEntries(entries.map(([name, text]) => [name, String(text)]))),
  })
}
