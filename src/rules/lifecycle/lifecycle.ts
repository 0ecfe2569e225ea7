/**
 * The life of a server: one table of what happens to it in which state. Pure. The rows are those of "Life of a server"
 * in the decisions; whatever is not in the table changes nothing.
 */
import type { GameState } from '../game/heartbeat.js'
import {
  draftOf,
  type Ending,
  type EndingReason,
  type Health,
  type PortPair,
  type Server,
  type Session,
} from '../model/resources.js'

export type ServerEvent =
  /** Its process runs. */
  | {
      readonly type: 'running'
      readonly address?: string
      readonly node?: string
      readonly ports: readonly PortPair[]
    }
  /** The game claims a state; `health` is what `health.ts` makes of its reports. */
  | { readonly type: 'heartbeat'; readonly claims: GameState; readonly health: Health }
  /** It was handed to a session, durably. */
  | { readonly type: 'allocated'; readonly session: Session }
  /** Its process ended. No code: nobody knows it. Blameless: its engine took it down. */
  | { readonly type: 'exited'; readonly exitCode?: number; readonly reason?: string; readonly interrupted?: true }
  /** Its instance is not there any more. */
  | { readonly type: 'gone' }
  /** No first heartbeat within the limit, or none for too long. */
  | { readonly type: 'silent'; readonly spoke: boolean; readonly limitMs: number }
  /** It runs and talks, and is not standing by within the limit. */
  | { readonly type: 'neverReady'; readonly limitMs: number }
  /** The game reported Unhealthy often enough in a row. */
  | { readonly type: 'reportedUnhealthy'; readonly reports: number }
  /** Somebody wants it to end: scaling, an operator, a drain. */
  | { readonly type: 'end'; readonly reason: EndingReason; readonly message: string }

/** States in which nobody plays on a server. */
export function isIdle(server: Server): boolean {
  return server.state === 'Pending' || server.state === 'Initializing' || server.state === 'StandingBy'
}

/** No machine took it: through no fault of its own it was gone before it ever stood by. */
export function wasRefused({ ending, reachedStandingByOn }: Server): boolean {
  return ending?.reason === 'Gone' && !ending.crash && reachedStandingByOn === undefined
}

/** Its successor would fare no better at once: it crashed, or was refused, or exited though nobody had played on it. */
export function callsForPause(server: Server): boolean {
  const { ending, session } = server
  if (ending === undefined) return false
  return ending.crash || wasRefused(server) || (ending.reason === 'Exited' && !session)
}

/** What a server is after an event at wall time `now`. The same object when nothing changes. */
export function transition(server: Server, event: ServerEvent, now: number): Server {
  // What ends stays as it ended: the first reason is the true one.
  if (server.state === 'Terminating') return server
  switch (event.type) {
    case 'running':
      return running(server, event, now)
    case 'heartbeat':
      return heartbeat(server, event, now)
    case 'allocated':
      return allocated(server, event.session, now)
    case 'exited':
      return exited(server, event, now)
    case 'gone':
      return ended(server, {
        reason: 'Gone',
        message: 'its instance disappeared and nobody knows why',
        crash: isIdle(server),
        at: now,
      })
    case 'silent':
      if (!isIdle(server)) return withHealth(server, 'Unhealthy')
      return ended(server, {
        reason: event.spoke ? 'Silent' : 'NeverSpoke',
        message: event.spoke
          ? `no heartbeat for ${seconds(event.limitMs)}`
          : `no heartbeat within ${seconds(event.limitMs)} of its process running`,
        crash: true,
        at: now,
      })
    case 'neverReady':
      if (server.state !== 'Pending' && server.state !== 'Initializing') return server
      return ended(server, {
        reason: 'NeverReady',
        message: `not standing by within ${seconds(event.limitMs)} of its process running`,
        crash: true,
        at: now,
      })
    case 'reportedUnhealthy':
      if (!isIdle(server)) return withHealth(server, 'Unhealthy')
      return ended(server, {
        reason: 'ReportedUnhealthy',
        message: `the game reported Unhealthy ${event.reports} times in a row`,
        crash: true,
        at: now,
      })
    case 'end':
      if (server.state === 'Active' && sparesMatches(event.reason)) return server
      return ended(server, { reason: event.reason, message: event.message, crash: false, at: now })
  }
}

function allocated(server: Server, session: Session, now: number): Server {
  if (server.state !== 'StandingBy') return server
  const next = draftOf(server)
  next.state = 'Active'
  next.session = session
  next.reachedActiveOn = now
  return next
}

function running(server: Server, event: Extract<ServerEvent, { type: 'running' }>, now: number): Server {
  // What is known stays known when a later event does not say it again.
  const { address = server.address, node = server.node } = event
  const ports = event.ports.length === 0 || samePorts(event.ports, server.ports ?? []) ? server.ports : event.ports
  const known = address === server.address && node === server.node && ports === server.ports
  if (known && server.state !== 'Pending') return server
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
  if (isIdle(server) && saysGoodbye(event.claims)) {
    return ended(server, {
      reason: 'Exited',
      message: `the game said that it is ${event.claims}`,
      crash: false,
      at: now,
    })
  }
  if (server.state !== 'Pending' && server.state !== 'Initializing') return withHealth(server, event.health)
  if (server.state === 'Initializing' && event.claims !== 'StandingBy') return withHealth(server, event.health)
  const next = draftOf(server)
  next.health = event.health
  // A heartbeat proves that the process runs, also when the backend has not said so yet.
  next.reachedInitializingOn ??= now
  next.state = 'Initializing'
  if (event.claims === 'StandingBy') {
    next.state = 'StandingBy'
    next.reachedStandingByOn = now
  }
  return next
}

function exited(server: Server, event: Extract<ServerEvent, { type: 'exited' }>, now: number): Server {
  const why = event.reason === undefined ? '' : `: ${event.reason}`
  if (event.interrupted) {
    return ended(server, { reason: 'Gone', message: `its process ended with its engine${why}`, crash: false, at: now })
  }
  if (event.exitCode === 0) {
    return ended(server, { reason: 'Exited', message: `its process exited with 0${why}`, crash: false, at: now })
  }
  if (event.exitCode === undefined) {
    return ended(server, {
      reason: 'Gone',
      message: `its process ended, its exit code is not known${why}`,
      crash: isIdle(server),
      at: now,
    })
  }
  return ended(server, {
    reason: 'NonZeroExit',
    message: `its process exited with ${event.exitCode}${why}`,
    crash: true,
    at: now,
  })
}

function ended(server: Server, ending: Ending): Server {
  const next = draftOf(server)
  next.state = 'Terminating'
  next.ending = ending
  return next
}

function withHealth(server: Server, health: Health): Server {
  if (server.health === health) return server
  const next = draftOf(server)
  next.health = health
  return next
}

/** An Active server is never removed by scaling or by a rolling change; a drain ends it only when asked to. */
function sparesMatches(reason: EndingReason): boolean {
  return reason === 'ScaledDown' || reason === 'Replaced'
}

function saysGoodbye(claims: GameState): boolean {
  return claims === 'Terminating' || claims === 'Terminated' || claims === 'Quarantined'
}

function samePorts(a: readonly PortPair[], b: readonly PortPair[]): boolean {
  return (
    a.length === b.length && a.every((port, i) => port.container === b[i]?.container && port.public === b[i]?.public)
  )
}

function seconds(ms: number): string {
  return `${ms / 1000} s`
}
