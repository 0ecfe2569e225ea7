/** Decides which fleet events become Kubernetes Events and which object they refer to. Pure. */
import type { FleetEvent } from '../../../../src/contracts/events.js'
import type { Ref } from '../../../../src/rules/model/resources.js'

export interface KubeEvent {
  readonly type: 'Normal' | 'Warning'
  readonly reason: string
  readonly message: string
  readonly at: number
  readonly object: InvolvedObject
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
    case 'ServerStartFailed':
    case 'ReconcileFailed':
      return { type: 'Warning', reason: event.type, message, at, object: objects.build(event.build) }
    case 'ServerEnding': {
      // Report only terminations that the fleet did not decide on (crashes, evictions, lost nodes, external deletions) and
      // sessions that lasted too long.
      if (!event.crash && event.reason !== 'Gone' && event.reason !== 'SessionTooLong') return undefined
      // The Event refers to the build, because the server and its Events are about to be deleted.
      return { type: 'Warning', reason: event.reason, message, at, object: objects.build(event.build) }
    }
    case 'ServerHealthChanged':
      if (event.health !== 'Unhealthy') return undefined
      return { type: 'Warning', reason: 'Unhealthy', message, at, object: objects.server(event.server) }
    case 'BuildCreated':
    case 'BuildDeleted':
    case 'BuildPreparing':
    case 'ServerCreated':
    case 'ServerStateChanged':
    case 'ServerRemoved':
    case 'Allocated':
    case 'PlayersChanged':
    case 'DrainProgress':
    case 'OrphanFound':
    case 'BackendUnavailable':
    case 'BackendRecovered':
    case 'LeadershipChanged':
    case 'WebhookFailed':
      return undefined
  }
}
