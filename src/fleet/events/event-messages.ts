/**
 * Composes the messages of the events that every allocation emits. They follow from the events' other fields, so they are composed
 * when an event is first read: most events never are. Pure.
 */
import type { AuditedAction } from '../../contracts/audit.js'
import type { UnnumberedEvent } from '../../contracts/events.js'
import { keyOf } from '../../rules/model/resources.js'

type AuditedEvent = Extract<UnnumberedEvent, { readonly type: 'Audited' }>

/** Returns the event's own message unless it is empty. */
export function messageOf(event: UnnumberedEvent): string {
  if (event.message !== '') return event.message
  const { type } = event
  if (type === 'Allocated') return `${event.server.name} was allocated to session ${event.sessionID}`
  if (type === 'ServerStateChanged') return `${event.server.name} went from ${event.from} to ${event.to}`
  return type === 'Audited' ? audited(event) : ''
}

const verbs: Readonly<Record<AuditedAction, string>> = {
  allocate: 'allocated',
  createBuild: 'created',
  applyBuild: 'applied',
  patchBuild: 'patched',
  updateBuild: 'updated',
  drainBuild: 'drains',
  resumeBuild: 'resumed',
  deleteBuild: 'deleted',
  updateServer: 'updated',
  reserveServer: 'reserved',
  releaseServer: 'released',
  drainServer: 'drains',
  writeStdin: 'sent a line to',
  deleteServer: 'deleted',
  endSession: 'ended',
  reserveSeats: 'reserved seats on',
  releaseSeats: 'released seats on',
  joinSession: 'reserved seats on',
  announceMaintenance: 'announced maintenance of',
  withdrawMaintenance: 'withdrew the maintenance of',
  drainFleet: 'drains',
}

function audited(event: AuditedEvent): string {
  const { action, outcome } = event
  const { kind, name, address } = event.caller
  const who = `${kind}${name === undefined ? '' : ` ${name}`}${address === undefined ? '' : ` at ${address}`}`
  return `${who} ${verbs[action]} ${subjectOf(event)}${outcome === 'unknown' ? ' (outcome unknown)' : ''}`
}

function subjectOf(event: AuditedEvent): string {
  const { node, sessionID } = event
  const session = sessionID === undefined ? '' : ` for session ${sessionID}`
  if ('server' in event) return `server ${keyOf(event.server)}${session}`
  if (node !== undefined) return `node ${node}`
  if ('build' in event) return `build ${keyOf(event.build)}`
  return sessionID === undefined ? 'the fleet' : `a server${session}`
}
