/**
 * The notice of maintenance in heartbeat answers, in both forms that GSDK clients read. Pure.
 *
 * The clients differ in the case of field names: C++, Java and Unity read `documentIncarnation`, `eventId`…, Unreal reads
 * `DocumentIncarnation`, `EventId`…, and all of them read `Events` and `Resources`. C# ignores case, so these two lists must
 * appear only once: it would append the second to the first.
 */

export interface MaintenanceNotice {
  /** `yyyy-MM-ddTHH:mm:ssZ`. */
  readonly nextScheduledMaintenanceUtc: string
  readonly maintenanceSchedule: MaintenanceSchedule
}

export interface MaintenanceSchedule extends EitherCase<{ readonly documentIncarnation: string }> {
  readonly Events: readonly MaintenanceEvent[]
}

/** The fields of an Azure scheduled event. */
export interface MaintenanceEvent extends EitherCase<MaintenanceEventFields> {
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
