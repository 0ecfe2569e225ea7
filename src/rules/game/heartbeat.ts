/**
 * What a game server says once a second and what it is answered. Pure. The wire is the PlayFab GSDK's; its clients
 * differ in the case of keys and in how they say "nothing", so reading is lenient.
 */
import { isObject } from '../validation/problem.js'

/** The states a game server's SDK can claim. */
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
  /** Absent when the game says nothing of its health. */
  readonly health?: 'Healthy' | 'Unhealthy'
  /** Empty when the game names none: absent, `null` and `[]` mean the same. */
  readonly players: readonly string[]
}

export interface SessionConfig {
  readonly sessionId: string
  readonly sessionCookie?: string
  readonly initialPlayers: readonly string[]
  readonly metadata: Readonly<Record<string, string>>
}

export interface HeartbeatAnswer {
  /** `Active` only ever answers a StandingBy heartbeat: a second time breaks two of the SDKs. */
  readonly operation: 'Continue' | 'Active' | 'Terminate'
  /** At least 1000. */
  readonly nextHeartbeatIntervalMs: number
  /** Present in every answer from the allocation on. */
  readonly sessionConfig?: SessionConfig
  /** Not sent: this host does not lead, and the connection ends, so that the next call may find the one that does. */
  readonly isElsewhere?: true
}

/** Reads the parsed JSON of a heartbeat. A claim that is not understood counts as Invalid: a sign of life, no more. */
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
  return gameStates.find((known) => known === value) ?? stateOfAnyCase(value.toLowerCase())
}

function stateOfAnyCase(lowerCase: string): GameState {
  return gameStates.find((known) => known.toLowerCase() === lowerCase) ?? 'Invalid'
}

function healthOf(value: unknown): Heartbeat['health'] {
  if (typeof value !== 'string') return undefined
  const claimed = value.toLowerCase()
  if (claimed === 'healthy') return 'Healthy'
  return claimed === 'unhealthy' ? 'Unhealthy' : undefined
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
