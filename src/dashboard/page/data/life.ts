/** A server's life in phases, and what happened in it: each thing once. Pure. */
import type { AuditedAction } from '../../../contracts/call-options.js'
import type { FleetEvent } from '../../../contracts/events.js'
import type { ServerState } from '../../../rules/model/resources.js'

export interface Phase {
  readonly name: 'starting' | 'ready' | 'match' | 'ending' | 'before'
  /** By which it is coloured. */
  readonly state: ServerState
  /** Wall time in ms. */
  readonly from: number
  readonly to: number
}

export interface Life {
  readonly phases: readonly Phase[]
  /** With what it ended, such as `exit 1`. Undefined while it has not. */
  readonly end: string | undefined
  readonly isCrash: boolean
}

const names: Readonly<Record<ServerState, Phase['name']>> = {
  Pending: 'starting',
  Initializing: 'starting',
  StandingBy: 'ready',
  Active: 'match',
  Terminating: 'ending',
}

/** Of a server that is used again and again, the phases before the last ones are one. */
const mostPhases = 12

/** `events`: oldest first. `now`: where the life of a server that has not been removed ends so far, wall time in ms. */
export function lifeOf(events: readonly FleetEvent[], now: number): Life {
  const phases: Phase[] = []
  let end: string | undefined
  let isCrash = false
  let removedAt: number | undefined
  const enter = (state: ServerState, at: number) => {
    const last = phases.at(-1)
    if (last && last.name === names[state]) return
    if (last) phases[phases.length - 1] = { ...last, to: at }
    phases.push({ name: names[state], state, from: at, to: at })
  }
  for (const event of events) {
    const { at } = event
    if (event.type === 'ServerCreated') enter('Pending', at)
    else if (event.type === 'ServerStateChanged') {
      // The log may not go back to its creation.
      if (phases.length === 0 && event.from !== event.to) enter(event.from, at)
      enter(event.to, at)
    } else if (event.type === 'ServerEnding') {
      enter('Terminating', at)
      isCrash = event.crash
      end = endOf(event.message) ?? wordsOf(event.reason)
    } else if (event.type === 'ServerRemoved') removedAt = at
  }
  const last = phases.at(-1)
  if (last) phases[phases.length - 1] = { ...last, to: Math.max(last.from, removedAt ?? now) }
  return { phases: shortened(phases), end, isCrash }
}

function shortened(phases: readonly Phase[]): readonly Phase[] {
  if (phases.length <= mostPhases) return phases
  const [first] = phases
  const kept = phases.slice(1 - mostPhases)
  const [next] = kept
  return first && next ? [{ name: 'before', state: 'Pending', from: first.from, to: next.from }, ...kept] : kept
}

/** `the process exited with code 3` and `was killed by signal SIGKILL` in a few letters. */
function endOf(message: string): string | undefined {
  const [, code] = /\b(?:exit(?:ed)?(?: with)?(?: code)?) (\d+)\b/.exec(message) ?? []
  if (code !== undefined) return `exit ${code}`
  return /\bSIG[A-Z]+\b/.exec(message)?.[0]
}

/** `SessionOver` as `session over`. */
function wordsOf(reason: string): string {
  return reason.replaceAll(/(?<=[a-z])(?=[A-Z])/g, ' ').toLowerCase()
}

export interface Happening {
  readonly event: FleetEvent
  /** Who asked for it, if the log says so. */
  readonly by?: string
}

type Audited = Extract<FleetEvent, { readonly type: 'Audited' }>

/** What each call of an operator or matchmaker leads to. */
const effects: Readonly<Partial<Record<AuditedAction, readonly FleetEvent['type'][]>>> = {
  allocate: ['Allocated'],
  updateServer: ['ServerDataChanged'],
  reserveServer: ['ServerReserved'],
  releaseServer: ['ReservationReleased'],
  drainServer: ['ServerEnding'],
  deleteServer: ['ServerEnding'],
  endSession: ['ServerEnding'],
  reserveSeats: ['SeatsReserved'],
  joinSession: ['SeatsReserved'],
  releaseSeats: ['SeatsReleased'],
  announceMaintenance: ['MaintenanceAnnounced'],
  withdrawMaintenance: ['MaintenanceWithdrawn'],
}

/** Two events this close in time may be about the same thing. */
const sameMs = 2_000

/**
 * One entry for each thing that happened, oldest first: a change of state that follows from an allocation or an ending is part of that, and so
 * is the record of who asked for it.
 */
export function happeningsIn(events: readonly FleetEvent[]): readonly Happening[] {
  const by = new Map<FleetEvent, string>()
  const isPart = new Set<FleetEvent>()
  for (const event of events) {
    if (event.type === 'ServerStateChanged') {
      const cause = event.to === 'Active' ? 'Allocated' : event.to === 'Terminating' ? 'ServerEnding' : undefined
      if (cause && events.some((other) => other.type === cause && isClose(event, other))) isPart.add(event)
    }
    if (event.type !== 'Audited' || event.outcome === 'unknown') continue
    const effect = events.find((other) => isEffect(event, other) && !by.has(other))
    if (effect === undefined) continue
    isPart.add(event)
    by.set(effect, callerOf(event))
  }
  return events
    .filter((event) => !isPart.has(event))
    .map((event) => {
      const who = by.get(event)
      return who === undefined ? { event } : { event, by: who }
    })
}

function isEffect(audited: Audited, event: FleetEvent): boolean {
  if (!effects[audited.action]?.includes(event.type) || !isClose(audited, event)) return false
  return !('sessionID' in event) || audited.sessionID === undefined || event.sessionID === audited.sessionID
}

function isClose(a: FleetEvent, b: FleetEvent): boolean {
  return Math.abs(a.at - b.at) <= sameMs
}

function callerOf({ caller: { kind, name, address } }: Audited): string {
  return `${kind}${name === undefined ? '' : ` ${name}`}${address === undefined ? '' : ` at ${address}`}`
}
