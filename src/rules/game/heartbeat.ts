/**
 * Heartbeats of the PlayFab GSDK and their answers. Pure. Parsing is lenient, because GSDK clients differ in the case of
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
  /** Absent if the game does not report its health. */
  readonly health?: 'Healthy' | 'Unhealthy'
  /** Empty if the field was absent, `null` or `[]`. */
  readonly players: readonly string[]
}

export interface SessionConfig {
  readonly sessionId: string
  readonly sessionCookie?: string
  readonly initialPlayers: readonly string[]
  readonly metadata: Readonly<Record<string, string>>
}

export interface HeartbeatAnswer {
  /**
   * `Active` is sent only in answer to a heartbeat that reports StandingBy, because two of the SDKs break if they receive it
   * twice.
   */
  readonly operation: 'Continue' | 'Active' | 'Terminate'
  /** At least 1000. */
  readonly nextHeartbeatIntervalMs: number
  /** Included in every answer after the allocation. */
  readonly sessionConfig?: SessionConfig
  /**
   * Internal, never sent to the game. True if this host is not the leader: it then closes the connection, so that the next
   * heartbeat can reach the leader.
   */
  readonly isElsewhere?: true
}

/**
 * Reads a heartbeat from its parsed JSON. An unknown state becomes Invalid, so that the heartbeat only shows that the game
 * is alive.
 */
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
