/**
 * Heartbeats of the PlayFab GSDK and their answers. Pure. Parsing is lenient, because GSDK clients differ in the case of
 * keys and in how they encode an absent value.
 */
import { sizeLimits } from '../model/sizes.js'
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
  /** True if the players are those of an earlier answer of the game, or not known, so that they do not show that nobody has come. */
  readonly arePlayersOld?: true
  /** Absent until the game has ended a session and gone on. From then on, in each of its heartbeats. */
  readonly endedSession?: EndedSession
  /** Present if the game takes several sessions at the same time. */
  readonly several?: SeveralSessions
}

/** What a game that takes several sessions reports of them. Numbers are those that the fleet has given them. */
export interface SeveralSessions {
  /** Those that the game runs. */
  readonly running: readonly EndedSession[]
  /** Those that it has ended: the last one, and all that the fleet listed in its last answer. */
  readonly ended: readonly EndedSession[]
}

/** A session that a game has ended. */
export interface EndedSession {
  readonly sessionID: string
  /**
   * Of a game that takes several sessions: the number of the session. Of others:
   * How many sessions the process has ended, this one included. Orders its heartbeats: one with a lower number than the server's record was
   * sent before that session ended, and says nothing about a later one, even if both have the same id.
   */
  readonly number: number
}

/**
 * A session as game servers receive it. Never contains the build's metadata: most SDKs copy `metadata` over their own settings,
 * so a key such as `region` or the name of a port would overwrite a setting.
 */
export interface SessionConfig {
  readonly sessionId: string
  readonly sessionCookie?: string
  readonly initialPlayers: readonly string[]
}

/** One of the sessions of a game that takes several. */
export interface NumberedSessionConfig extends SessionConfig {
  /** Distinguishes it from every other session of this server, also from one with the same id. Later sessions have higher numbers. */
  readonly number: number
  /** True once the host app or an operator wants the game to end it. */
  readonly ending?: true
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
  /** How many sessions of this server its game has ended. Included with a session if there are any, so never for a GSDK client. */
  readonly endedSessions?: number
  /** All sessions of the server, in the order in which they began. Included in every answer to a game that takes several. */
  readonly sessions?: readonly NumberedSessionConfig[]
  /** Included in every answer while maintenance of the server is announced. */
  readonly maintenance?: MaintenanceNotice
  /**
   * Internal, never sent to the game. True if this host is not the leader: it then closes the connection, so that the next
   * heartbeat can reach the leader.
   */
  readonly isElsewhere?: true
}

/** A request to postpone the answer to a heartbeat that reported StandingBy and was answered with Continue. */
export interface ParkedHeartbeat {
  /** How long the game prefers to wait, in ms. 0: not specified; the answer is sent as soon as it would be otherwise.
   * Infinity: no limit, and no timer. */
  readonly waitMs: number
  /** Called once, with the answer to send: as soon as it has changed, or when its time is over. */
  answer(answer: HeartbeatAnswer): void
}

/**
 * How long a heartbeat is parked while its server is being allocated, even if the game did not ask for it. Much
 * less than the 1 s after which the GSDK for Java gives up.
 */
const allocationParkMs = 250

/**
 * How long a heartbeat may be parked: not longer than until the next heartbeat would have been due, unless the game
 * prefers to wait without limit.
 */
export function parkTimeMs(waitMs: number, heartbeatIntervalMs: number, isBeingAllocated: boolean): number {
  if (waitMs === Infinity) return waitMs
  const preferredMs = Math.min(waitMs, heartbeatIntervalMs)
  return isBeingAllocated ? Math.max(preferredMs, allocationParkMs) : preferredMs
}

/**
 * Reads a heartbeat from its parsed JSON. An unknown state becomes Invalid, so that the heartbeat only shows that the game
 * is alive.
 */
export function readHeartbeat(body: unknown): Heartbeat {
  let state: GameState = 'Invalid'
  let health: Heartbeat['health']
  let players: readonly string[] = []
  let ended: EndedSession | undefined
  let running: readonly EndedSession[] | undefined
  let allEnded: readonly EndedSession[] = []
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
        case 'endedsession':
          ended = endedSessionOf(value)
          break
        case 'sessions':
          running = sessionsOf(value)
          break
        case 'endedsessions':
          allEnded = sessionsOf(value) ?? []
          break
      }
    }
  }
  const heartbeat = health === undefined ? { state, players } : { state, health, players }
  if (running) return { ...heartbeat, several: { running, ended: allEnded } }
  return ended === undefined ? heartbeat : { ...heartbeat, endedSession: ended }
}

/** Finds the state in the start of a heartbeat's JSON. Undefined if it is not in it. */
export function heartbeatStart(json: string): Heartbeat | undefined {
  const state = /"currentgamestate"\s*:\s*"([a-z]{1,20})"/i.exec(json)?.[1]
  return state === undefined ? undefined : { state: stateOf(state), players: [] }
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

/** Undefined unless both fields are valid. */
function endedSessionOf(value: unknown): EndedSession | undefined {
  if (!isObject(value)) return undefined
  const { SessionId: sessionID, Number: number } = value
  if (typeof sessionID !== 'string' || typeof number !== 'number') return undefined
  return Number.isSafeInteger(number) && number >= 1 ? { sessionID, number } : undefined
}

/** Undefined unless it is an array. Leaves out what is no session, and what a game cannot have. */
function sessionsOf(value: unknown): readonly EndedSession[] | undefined {
  if (!Array.isArray(value)) return undefined
  return value.slice(0, sizeLimits.reportedSessions).flatMap((session) => endedSessionOf(session) ?? [])
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

// The notice of maintenance in heartbeat answers, in both forms that GSDK clients read.
//
// The clients differ in the case of field names: C++, Java and Unity read `documentIncarnation`, `eventId`…, Unreal reads
// `DocumentIncarnation`, `EventId`…, and all of them read `Events` and `Resources`. C# ignores case, so these two lists must
// appear only once: it would append the second to the first.

export interface MaintenanceNotice {
  /** `yyyy-MM-ddTHH:mm:ssZ`. */
  readonly nextScheduledMaintenanceUtc: string
  readonly maintenanceSchedule: MaintenanceSchedule
}

interface MaintenanceSchedule extends EitherCase<{ readonly documentIncarnation: string }> {
  readonly Events: readonly MaintenanceEvent[]
}

/** The fields of an Azure scheduled event. */
interface MaintenanceEvent extends EitherCase<MaintenanceEventFields> {
  readonly Resources: readonly string[]
}

interface MaintenanceEventFields {
  readonly eventId: string
  readonly eventType: 'Reboot'
  readonly resourceType: 'VirtualMachine'
  readonly eventStatus: 'Scheduled'
  readonly notBefore: string
  readonly description: string
  readonly eventSource: 'Platform'
  /** -1: unknown. */
  readonly durationInSeconds: -1
}

type EitherCase<T> = T & { readonly [K in keyof T & string as Capitalize<K>]: T[K] }

/** `at`: wall time in ms. `resource`: name of the machine or server that the maintenance affects. */
export function maintenanceNotice(at: number, resource: string): MaintenanceNotice {
  const time = `${new Date(at).toISOString().slice(0, 19)}Z`
  // Changes with the announcement, and only then: some clients pass the schedule to the game with every answer.
  const id = String(Math.floor(at / 1000))
  const [eventId, description] = [`maintenance-${id}`, `Maintenance of ${resource}`]
  const event: MaintenanceEvent = {
    eventId,
    EventId: eventId,
    eventType: 'Reboot',
    EventType: 'Reboot',
    resourceType: 'VirtualMachine',
    ResourceType: 'VirtualMachine',
    Resources: Object.freeze([resource]),
    eventStatus: 'Scheduled',
    EventStatus: 'Scheduled',
    notBefore: time,
    NotBefore: time,
    description,
    Description: description,
    eventSource: 'Platform',
    EventSource: 'Platform',
    durationInSeconds: -1,
    DurationInSeconds: -1,
  }
  return Object.freeze({
    nextScheduledMaintenanceUtc: time,
    maintenanceSchedule: Object.freeze({
      documentIncarnation: id,
      DocumentIncarnation: id,
      Events: Object.freeze([Object.freeze(event)]),
    }),
  })
}
