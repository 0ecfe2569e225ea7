/** Reads the agent's answer to a heartbeat. Pure. Lenient, because other GSDK agents omit or add fields. */
import type { SessionConfig } from '../rules/game/heartbeat.js'
import { isObject, shown } from '../rules/validation/problem.js'

export interface Answer {
  /** `Continue`, `Active`, `Terminate`, or an operation that a newer agent added. */
  readonly operation: string
  readonly nextHeartbeatIntervalMs?: number
  readonly session?: SessionConfig
  /** When announced maintenance begins, wall time in ms. */
  readonly maintenanceAt?: number
}

/** Throws an Error that quotes `text` if it is not a valid answer. */
export function readAnswer(text: string): Answer {
  const body = parse(text)
  if (!isObject(body) || typeof body['operation'] !== 'string') throw new Error(`not an answer: ${shown(text)}`)
  const interval = body['nextHeartbeatIntervalMs']
  const session = sessionOf(body['sessionConfig'])
  const maintenanceAt = timeOf(body['nextScheduledMaintenanceUtc'])
  return {
    operation: body['operation'],
    ...(typeof interval === 'number' && interval > 0 ? { nextHeartbeatIntervalMs: interval } : {}),
    ...(session === undefined ? {} : { session }),
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
