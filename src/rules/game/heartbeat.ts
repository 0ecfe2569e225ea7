/**
 * Heartbeats of the PlayFab GSDK and their answers. Pure. Reading is lenient, since its clients differ in the case of
 * keys and in how they encode an absent value.
 */
import { isObject } from '../validation/problem.js'

/** The states that a game can report. */
export const gameStates = [
  'Invalid',
  'Initializing',
  'StandingBy',
  'Active',
  'Terminating',
  'Terminated',
  'Quarantined',
] as const
export type GameState = (typeof gameStates)[number]

export interface Heartbeat {
  readonly state: GameState
  /** Absent when the game does not report its health. */
  readonly health?: 'Healthy' | 'Unhealthy'
  /** Absent, `null` and `[]` are all read as empty. */
  readonly players: readonly string[]
}

export interface SessionConfig {
  readonly sessionId: string
  readonly sessionCookie?: string
  readonly initialPlayers: readonly string[]
  readonly metadata: Readonly<Record<string, string>>
}

export interface HeartbeatAnswer {
  /** `Active` only answers a heartbeat that reports StandingBy: two of the SDKs break if they get it twice. */
  readonly operation: 'Continue' | 'Active' | 'Terminate'
  /** At least 1000. */
  readonly nextHeartbeatIntervalMs: number
  /** In every answer after the allocation. */
  readonly sessionConfig?: SessionConfig
  /** Internal, not sent: this host is not the leader, and closes the connection so that the next call can reach the leader. */
  readonly isElsewhere?: true
}

/** Reads the parsed JSON of a heartbeat. An unknown state counts as Invalid: a sign of life only. */
export function readHeartbeat(body: unknown): Heartbeat {
  let state: GameState = 'Invalid'
  let health: Heartbeat['health']
  let players: readonly string[] = []
  if (isObject(body)) {
    for (const key in body) {
      const value = body[key]
      switch (key.toLowerCase()) {
        case 'currentgamestate':
          state = stateOf(value)
          break
        case 'currentgamehealth':
          health = healthOf(value)
          break
        case 'currentplayers':
          players = playersOf(value)
          break
      }
    }
  }
  return health === undefined ? { state, players } : { state, health, players }
}

function stateOf(value: unknown): GameState {
  if (typeof value !== 'string') return 'Invalid'
  return gameStates.find((state) => state === value) ?? stateOfAnyCase(value.toLowerCase())
}

function stateOfAnyCase(lowerCase: string): GameState {
  return gameStates.find((state) => state.toLowerCase() === lowerCase) ?? 'Invalid'
}

function healthOf(value: unknown): Heartbeat['health'] {
  if (typeof value !== 'string') return undefined
  const lowerCase = value.toLowerCase()
  if (lowerCase === 'healthy') return 'Healthy'
  return lowerCase === 'unhealthy' ? 'Unhealthy' : undefined
}

function playersOf(value: unknown): readonly string[] {
  if (!Array.isArray(value) || value.length === 0) return []
  const players: string[] = []
  for (const player of value) {
    const id = typeof player === 'string' ? player : playerIdOf(player)
    if (id !== undefined) players.push(id)
  }
  return players
}

function playerIdOf(player: unknown): string | undefined {
  if (!isObject(player)) return undefined
  for (const key in player) {
    if (key.toLowerCase() === 'playerid') {
      const id = player[key]
      return typeof id === 'string' ? id : undefined
    }
  }
  return undefined
}
