/** Logs the fleet's events for an operator, except events that the fleet already logs. */
import type { EndingReason, EventOf, Fleet, FleetEvent } from '../index.js'
import type { ServerLog } from './log.js'

export function logEvents(fleet: Fleet, log: ServerLog): void {
  fleet.on('*', (event) => {
    // An audit line does not depend on the log level.
    if (event.type === 'Audited') log.always(fieldsOf(event), event.message)
    const level = levelOf(event)
    if (level !== undefined) log[level](fieldsOf(event), event.message)
  })
}

/** Routine reasons for ending a server, logged only at debug level. */
const routineReasons: ReadonlySet<EndingReason> = new Set(['ScaledDown', 'Drained', 'Replaced'])

function levelOf(event: FleetEvent): 'debug' | 'info' | 'warn' | undefined {
  switch (event.type) {
    case 'BuildCreated':
    case 'BuildPatched':
    case 'BuildUpdated':
    case 'BuildDeleted':
    case 'Allocated':
    case 'MaintenanceAnnounced':
    case 'MaintenanceWithdrawn':
    case 'ServerReserved':
    case 'ReservationReleased':
    case 'ReservationLapsed':
    case 'LeadershipChanged':
      return 'info'
    case 'ConditionChanged':
      return event.status ? 'warn' : 'info'
    case 'BuildPreparing':
      return event.status === 'failed' ? undefined : 'info'
    case 'ServerHealthChanged':
      return event.health === 'Unhealthy' ? 'warn' : 'debug'
    case 'ServerEnding':
      // The fleet already logs crashes.
      if (event.crash) return undefined
      return routineReasons.has(event.reason) ? 'debug' : 'info'
    case 'ServerCreated':
    case 'ServerStateChanged':
    case 'ServerDataChanged':
    case 'ServerRemoved':
    case 'SessionEnded':
    case 'PlayersChanged':
    case 'SeatsReserved':
    case 'SeatsReleased':
    case 'SeatsLapsed':
    case 'DrainProgress': // shutdown.ts logs the progress.
      return 'debug'
    case 'TemplateFieldsSkipped':
    case 'MetadataKeysReserved':
    case 'BuildHealthChanged':
    case 'ServerLate':
    case 'ServerStartFailed':
    case 'OrphanFound':
    case 'StoreDamaged':
    case 'ReconcileFailed':
    case 'BackendUnavailable':
    case 'BackendRecovered':
    case 'WebhookFailed':
    case 'Audited':
      return undefined
  }
}

function fieldsOf(event: FleetEvent): object {
  const build = 'build' in event ? nameOf(event.build) : undefined
  const server = 'server' in event ? nameOf(event.server) : undefined
  const session = event.type === 'Allocated' ? { session: event.sessionID, waitedMs: Math.round(event.waitedMs) } : {}
  const audit = event.type === 'Audited' ? auditFields(event) : {}
  return {
    event: event.type,
    ...(build !== undefined && { build }),
    ...(server !== undefined && { server }),
    ...session,
    ...audit,
  }
}

function auditFields({ action, caller, outcome, node, sessionID }: EventOf<'Audited'>): object {
  return {
    action,
    outcome,
    caller: caller.name ?? caller.kind,
    callerKind: caller.kind,
    ...(caller.address !== undefined && { address: caller.address }),
    ...(node !== undefined && { node }),
    ...(sessionID !== undefined && { session: sessionID }),
  }
}

function nameOf({ namespace, name }: { readonly namespace: string; readonly name: string }): string {
  return namespace === 'default' ? name : `${namespace}/${name}`
}
