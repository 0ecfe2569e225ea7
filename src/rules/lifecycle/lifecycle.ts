/** The state machine of a server. Pure. If an event has no effect in the current state, the same object is returned. */
import type { EndedSession, GameState } from '../game/heartbeat.js'
import {
  draftOf,
  type Ending,
  type EndingReason,
  type Health,
  type Maintenance,
  type MaintenanceSource,
  type NewSession,
  type PortPair,
  type SeatHold,
  type Server,
  type Session,
} from '../model/resources.js'
import { isDate } from '../model/values.js'
import { type Checked, invalid, shown, valid } from '../validation/problem.js'
import { type ServerData, withData } from './server-data.js'
import { afterSessionEnds, withEndingSession, withSeats, withSession, withToldSession } from './server-sessions.js'
import { endedBeforeReady, endingAfterExit, type ExitEvent, isBeforeReady } from './termination.js'

export type ServerEvent =
  /** The server's process is running. */
  | {
      readonly type: 'running'
      readonly address?: string
      readonly node?: string
      readonly ports: readonly PortPair[]
    }
  /** The game reported a state. `health` comes from `healthOf`. */
  | { readonly type: 'heartbeat'; readonly gameState: GameState; readonly health: Health }
  /**
   * The first heartbeat that this host receives from a server of an earlier host reports a match, but the server's record has no
   * session: the store is older than the match, or damaged.
   */
  | { readonly type: 'foundActive'; readonly health: Health; readonly endedSessions?: number }
  /** The server was allocated to a session, its first or one beside others. */
  | { readonly type: 'allocated'; readonly session: NewSession | Session }
  /** The game is asked to end a session while others go on. */
  | { readonly type: 'sessionEnding'; readonly number: number }
  /** A game without an SDK has been told of the session with this number. */
  | { readonly type: 'sessionTold'; readonly number: number }
  /** The game has ended these sessions and goes on, and the store contains that. */
  | { readonly type: 'sessionsEnded'; readonly ended: readonly EndedSession[] }
  | ExitEvent
  /** The server's instance no longer exists. */
  | { readonly type: 'gone' }
  /** The server sent no first heartbeat within the limit, or no further heartbeat for that long. */
  | { readonly type: 'silent'; readonly hasSentHeartbeats: boolean; readonly limitMs: number }
  /** The server was not standing by within the limit. */
  | { readonly type: 'neverReady'; readonly limitMs: number }
  /** The game reached the limit of consecutive Unhealthy reports. `why`: what the fleet has seen of a game that it probes. */
  | { readonly type: 'reportedUnhealthy'; readonly reports: number; readonly why?: string }
  /** Maintenance was announced for the server, or withdrawn if `maintenance` is undefined. */
  | { readonly type: 'maintenance'; readonly maintenance: Maintenance | undefined }
  /** The server was reserved, or is not any longer if `until` is undefined. */
  | { readonly type: 'reservation'; readonly until: number | undefined }
  /** The server's labels, annotations, counters or lists were changed. */
  | { readonly type: 'data'; readonly data: ServerData | undefined }
  /** Seats of the session were reserved, released, taken or have lapsed. */
  | { readonly type: 'seats'; readonly holds: readonly SeatHold[] }
  /** The server is being terminated by scaling, an operator or a drain. */
  | { readonly type: 'end'; readonly reason: EndingReason; readonly message: string }

/** True in the states before a session: Pending, Initializing and StandingBy. */
export function isIdle(server: Server): boolean {
  return server.state === 'Pending' || server.state === 'Initializing' || server.state === 'StandingBy'
}

/**
 * True if the server's instance disappeared without a crash before it was standing by, for example because its node rejected
 * it.
 */
export function disappearedBeforeStandingBy({ ending, reachedStandingByOn }: Server): boolean {
  return ending?.reason === 'Gone' && !ending.crash && reachedStandingByOn === undefined
}

/** True if an immediate replacement would probably fail too, because the server crashed, never ran, or exited unused. */
export function needsBackoff(server: Server): boolean {
  const { ending } = server
  if (ending === undefined) return false
  return ending.crash || disappearedBeforeStandingBy(server) || exitedUnused(server)
}

/** True if the server was standing by and ended on its own, without ever having had a session. */
export function exitedUnused(server: Server): boolean {
  const { ending, startedSessions } = server
  return ending?.reason === 'Exited' && !isBeforeReady(server) && !startedSessions
}

/** Returns the server after an event at wall time `now`, or the same object if nothing changes. */
export function transition(server: Server, event: ServerEvent, now: number): Server {
  // Keep the first reason for the termination.
  if (server.state === 'Terminating') return server
  switch (event.type) {
    case 'running':
      return running(server, event, now)
    case 'heartbeat':
      return heartbeat(server, event, now)
    case 'foundActive':
      return isIdle(server) ? foundActive(server, event, now) : withHealth(server, event.health)
    case 'allocated':
      return withSession(server, event.session, now)
    case 'sessionEnding':
      return withEndingSession(server, event.number)
    case 'sessionTold':
      return withToldSession(server, event.number)
    case 'sessionsEnded':
      return afterSessionEnds(server, event.ended, now)
    case 'exited':
      return ended(server, endingAfterExit(server, event, now))
    case 'gone':
      return ended(server, {
        reason: 'Gone',
        message: 'its instance disappeared',
        crash: isIdle(server),
        at: now,
      })
    case 'silent':
      if (!isIdle(server)) return withHealth(server, 'Unhealthy')
      return ended(server, {
        reason: event.hasSentHeartbeats ? 'Silent' : 'NeverSpoke',
        message: event.hasSentHeartbeats
          ? `no heartbeat for ${seconds(event.limitMs)}`
          : `no heartbeat within ${seconds(event.limitMs)} of process start`,
        crash: true,
        at: now,
      })
    case 'neverReady':
      if (server.state !== 'Pending' && server.state !== 'Initializing') return server
      return ended(server, {
        reason: 'NeverReady',
        message: `not standing by within ${seconds(event.limitMs)} of process start`,
        crash: true,
        at: now,
      })
    case 'reportedUnhealthy':
      if (!isIdle(server)) return withHealth(server, 'Unhealthy')
      return ended(server, {
        reason: 'ReportedUnhealthy',
        message: event.why ?? `the game reported Unhealthy ${event.reports} times in a row`,
        crash: true,
        at: now,
      })
    case 'maintenance':
      return withMaintenance(server, event.maintenance)
    case 'reservation':
      return isIdle(server) ? withReservation(server, event.until) : server
    case 'data':
      return withData(server, event.data)
    case 'seats':
      return withSeats(server, event.holds)
    case 'end':
      if (server.state === 'Active' && keepsActiveServers(event.reason)) return server
      if (server.state === 'StandingBy' && event.reason === 'Late') return server
      return ended(server, { reason: event.reason, message: event.message, crash: false, at: now })
  }
}

/** Which session it is, and since when it runs, is not known. */
function foundActive(
  server: Server,
  { health, endedSessions }: Extract<ServerEvent, { type: 'foundActive' }>,
  now: number,
): Server {
  const next = draftOf(server)
  next.state = 'Active'
  next.health = health
  next.reachedInitializingOn ??= now
  next.reachedStandingByOn ??= now
  next.reachedActiveOn = now
  next.reservedUntil = undefined
  next.startedSessions = endedSessions ?? next.startedSessions
  return next
}

function running(server: Server, event: Extract<ServerEvent, { type: 'running' }>, now: number): Server {
  // An event may omit fields that an earlier event contained.
  const { address = server.address, node = server.node } = event
  const ports = event.ports.length === 0 || samePorts(event.ports, server.ports ?? []) ? server.ports : event.ports
  const isSame = address === server.address && node === server.node && ports === server.ports
  if (isSame && server.state !== 'Pending') return server
  const next = draftOf(server)
  next.address = address
  next.node = node
  next.ports = ports
  if (server.state === 'Pending') {
    next.state = 'Initializing'
    next.reachedInitializingOn = now
  }
  return next
}

function heartbeat(server: Server, event: Extract<ServerEvent, { type: 'heartbeat' }>, now: number): Server {
  if (isIdle(server) && isEnding(event.gameState)) {
    const message = `the game reported the state ${event.gameState}`
    if (isBeforeReady(server)) return ended(server, endedBeforeReady(`${message} before it was ready`, now))
    return ended(server, { reason: 'Exited', message, crash: false, at: now })
  }
  if (server.state !== 'Pending' && server.state !== 'Initializing') return withHealth(server, event.health)
  if (server.state === 'Initializing' && event.gameState !== 'StandingBy') return withHealth(server, event.health)
  const next = draftOf(server)
  next.health = event.health
  // A heartbeat proves that the process is running, even before the backend reports it.
  next.reachedInitializingOn ??= now
  next.state = 'Initializing'
  if (event.gameState === 'StandingBy') {
    next.state = 'StandingBy'
    next.reachedStandingByOn = now
  }
  return next
}

function ended(server: Server, ending: Ending): Server {
  const next = draftOf(server)
  next.state = 'Terminating'
  next.reservedUntil = undefined
  next.ending = ending
  return next
}

function withHealth(server: Server, health: Health): Server {
  if (server.health === health) return server
  const next = draftOf(server)
  next.health = health
  return next
}

/** Scaling, late starts and rolling updates never terminate an Active server. */
function keepsActiveServers(reason: EndingReason): boolean {
  return reason === 'ScaledDown' || reason === 'Replaced' || reason === 'Late'
}

function isEnding(gameState: GameState): boolean {
  return gameState === 'Terminating' || gameState === 'Terminated' || gameState === 'Quarantined'
}

function samePorts(a: readonly PortPair[], b: readonly PortPair[]): boolean {
  return (
    a.length === b.length && a.every((port, i) => port.container === b[i]?.container && port.public === b[i]?.public)
  )
}

function seconds(ms: number): string {
  return `${ms / 1000} s`
}

const daysAhead = 365
const maxNoticeMs = daysAhead * 24 * 3_600_000

/**
 * Checks the time of an announcement, which game SDKs receive in whole seconds. Returns it in ms, rounded down to a second.
 */
export function checkMaintenanceTime(at: unknown, now: number): Checked<number> {
  const ms = isDate(at) ? at.getTime() : at
  if (typeof ms === 'number' && ms > now && ms <= now + maxNoticeMs) return valid(Math.floor(ms / 1000) * 1000)
  const found = typeof ms === 'number' && Math.abs(ms) <= 8.64e15 ? new Date(ms).toISOString() : shown(ms)
  return invalid('at', `must be a time in the future, at most ${daysAhead} days ahead, but is ${found}`)
}

/** An announcement for one server is more specific than one for its node, and an operator knows more than the backend. */
const precedence: Readonly<Record<MaintenanceSource, number>> = { server: 2, node: 1, backend: 0 }

/** Returns the announcement that applies after `next`. One that is in the past gives way to any other. */
export function afterAnnouncement(current: Maintenance | undefined, next: Maintenance, now: number): Maintenance {
  const outranks = current && current.at > now && precedence[current.source] > precedence[next.source]
  return outranks ? current : next
}

/** Returns the server with this announcement, or the same object if it has it. */
function withMaintenance(server: Server, maintenance: Maintenance | undefined): Server {
  if (server.maintenance?.at === maintenance?.at && server.maintenance?.source === maintenance?.source) return server
  const next = draftOf(server)
  next.maintenance = maintenance
  return next
}

export const maxReservationMs = 7 * 24 * 3_600_000

/** Returns the server, reserved until this wall time in ms or not at all, or the same object if nothing changes. */
function withReservation(server: Server, reservedUntil: number | undefined): Server {
  if (server.reservedUntil === reservedUntil) return server
  const next = draftOf(server)
  next.reservedUntil = reservedUntil
  return next
}

/** Until when a server is reserved that is stored with this time, both in ms: a late write may store one that is over. */
export function unlapsed(until: number | undefined, now: number): number | undefined {
  return until !== undefined && until > now ? until : undefined
}
