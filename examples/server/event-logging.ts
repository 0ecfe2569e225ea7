/** Logs the fleet's events for an operator, except events that the fleet already logs. */
import type { EndingReason, Fleet, FleetEvent } from 'gamekeeper'
import type { ServerLog } from './log.js'

export function logEvents(fleet: Fleet, log: ServerLog): void {
  fleet.on('*', (event) => {
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
    case 'ServerRemoved':
    case 'PlayersChanged':
    case 'LeadershipChanged':
    case 'DrainProgress': // shutdown.ts logs the progress.
      return 'debug'
    case 'TemplateFieldsSkipped':
    case 'BuildHealthChanged':
    case 'ServerStartFailed':
    case 'OrphanFound':
    case 'ReconcileFailed':
    case 'BackendUnavailable':
    case 'BackendRecovered':
    case 'WebhookFailed':
      return undefined
  }
}

function fieldsOf(event: FleetEvent): object {
  const build = 'build' in event ? nameOf(event.build) : undefined
  const server = 'server' in event ? nameOf(event.server) : undefined
  const session = event.type === 'Allocated' ? { session: event.sessionID, waitedMs: Math.round(event.waitedMs) } : {}
  return {
    event: event.type,
    ...(build !== undefined && { build }),
    ...(server !== undefined && { server }),
    ...session,
  }
}

function nameOf({ namespace, name }: { readonly namespace: string; readonly name: string }): string {
  return namespace === 'default' ? name : `${namespace}/${name}`
}
