/** Decides which fleet events become Kubernetes Events and which object they refer to. Pure. */
import type { EventOf, FleetEvent } from '../../../../src/contracts/events.js'
import type { Ref } from '../../../../src/rules/model/resources.js'

export interface KubeEvent {
  readonly type: 'Normal' | 'Warning'
  readonly reason: string
  readonly message: string
  readonly at: number
  readonly object: InvolvedObject
  /** Whether hosts that do not lead may report it too. */
  readonly byAnyHost?: boolean
}

export interface InvolvedObject extends Ref {
  readonly kind: string
  readonly apiVersion: string
  readonly uid?: string
}

export interface ObjectLookup {
  build(ref: Ref): InvolvedObject
  server(ref: Ref): InvolvedObject
}

/** What happens in every healthy fleet, and often. */
export function isRoutine(event: FleetEvent): boolean {
  if (event.type === 'ServerEnding') return !isUnwanted(event)
  return event.type === 'BuildCreated' || event.type === 'ServerCreated' || event.type === 'Allocated'
}

/**
 * Whether the fleet did not decide on this end: a crash, an eviction, a lost node, an external deletion; or a session lasted too
 * long, or got no players.
 */
function isUnwanted({ crash, reason }: EventOf<'ServerEnding'>): boolean {
  return crash || reason === 'Gone' || reason === 'SessionTooLong' || reason === 'Unclaimed'
}

/** Returns undefined for events that are too frequent or are already visible in the objects. */
export function kubeEventOf(event: FleetEvent, objects: ObjectLookup): KubeEvent | undefined {
  const { message, at } = event
  switch (event.type) {
    case 'BuildHealthChanged': {
      const type = event.health === 'Healthy' ? 'Normal' : 'Warning'
      return { type, reason: event.health, message, at, object: objects.build(event.build) }
    }
    case 'ConditionChanged': {
      const [type, reason] = event.status
        ? (['Warning', event.condition] as const)
        : (['Normal', `${event.condition}Over`] as const)
      return { type, reason, message, at, object: objects.build(event.build) }
    }
    case 'TemplateFieldsSkipped':
    case 'BuildPatched':
    case 'BuildUpdated':
      return { type: 'Normal', reason: event.type, message, at, object: objects.build(event.build) }
    case 'MetadataKeysReserved':
    case 'ServerLate':
    case 'ServerStartFailed':
    case 'ReconcileFailed':
      return { type: 'Warning', reason: event.type, message, at, object: objects.build(event.build) }
    case 'ServerEnding': {
      if (event.reason === 'BuildDeleted') return undefined
      // The Event refers to the build, because the server and its Events are about to be deleted.
      const type = isUnwanted(event) ? 'Warning' : 'Normal'
      return { type, reason: event.reason, message, at, object: objects.build(event.build) }
    }
    // The server may have no object yet.
    case 'BuildCreated':
    case 'ServerCreated':
      return { type: 'Normal', reason: event.type, message, at, object: objects.build(event.build) }
    case 'Allocated':
    case 'SessionEnded':
      return { type: 'Normal', reason: event.type, message, at, object: objects.server(event.server) }
    case 'ServerHealthChanged':
      if (event.health !== 'Unhealthy') return undefined
      return { type: 'Warning', reason: 'Unhealthy', message, at, object: objects.server(event.server) }
    case 'MaintenanceAnnounced':
    case 'MaintenanceWithdrawn':
    case 'ServerReserved':
    case 'ReservationReleased':
    case 'ReservationLapsed':
      return { type: 'Normal', reason: event.type, message, at, object: objects.server(event.server) }
    case 'BuildDeleted':
    case 'BuildPreparing':
    case 'ServerStateChanged':
    case 'ServerDataChanged':
    case 'ServerRemoved':
    case 'Audited':
    case 'PlayersChanged':
    case 'SeatsReserved':
    case 'SeatsReleased':
    case 'SeatsLapsed':
    case 'DrainProgress':
    case 'OrphanFound':
    case 'StoreDamaged':
    case 'BackendUnavailable':
    case 'BackendRecovered':
    case 'LeadershipChanged':
    case 'WebhookFailed':
      return undefined
  }
}
