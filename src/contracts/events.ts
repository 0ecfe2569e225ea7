/** The union of all fleet events, each with a human-readable message, and the interfaces that emit and read them. */
import { shown } from '../rules/validation/problem.js'
import { FleetError } from './errors.js'
import { suggestion } from './option-checks.js'
import type { AuditedAction, AuditedOutcome, Caller, CallerKind } from './call-options.js'
import type { SessionEndReason } from '../rules/lifecycle/termination.js'
import type { Decider } from '../rules/scaling/policies.js'
import type { ConditionType, EndingReason, Health, Ref, ServerState } from '../rules/model/resources.js'

interface EventBase {
  /** Wall-clock time in ms. */
  readonly at: number
  /** A human-readable sentence. */
  readonly message: string
}

interface BuildEventBase extends EventBase {
  readonly build: Ref
}

interface ServerEventBase extends BuildEventBase {
  readonly server: Ref
}

interface SeatsEventBase extends ServerEventBase {
  readonly sessionID: string
  /** As many as 2 KiB can hold. */
  readonly players: readonly string[]
}

/** How a session has ended. */
export interface SessionEnd {
  readonly sessionID: string
  /** Distinguishes this session from a later one with the same sessionID. Each report of its end has the same. */
  readonly sessionUid: string
  /** Empty if the build no longer exists. */
  readonly buildID: string
  readonly reason: SessionEndReason
  /** With which the game's process exited, if `reason` is Crashed. */
  readonly exitCode?: number
  /** When the server was allocated: wall time in ms. Absent for a match whose record was lost and found. */
  readonly startedAt?: number
  /** From the allocation until the host heard of the end. */
  readonly durationMs?: number
  /** As many as 2 KiB can hold. */
  readonly initialPlayers: readonly string[]
  /** The players who were connected last, as many as 2 KiB can hold. If the server had several sessions, those of all. */
  readonly players: readonly string[]
}

/** A call that named its caller. `node` is present for maintenance of a node, `sessionID` for an allocation. */
interface AuditedBase {
  readonly type: 'Audited'
  readonly action: AuditedAction
  readonly caller: Caller & { readonly kind: CallerKind }
  readonly outcome: AuditedOutcome
  readonly node?: string
  readonly sessionID?: string
}

/** An event as it is emitted. If its message is empty, it is composed from the other fields when the event is first read. */
export type UnnumberedEvent =
  | ({ readonly type: 'BuildCreated' } & BuildEventBase)
  | ({ readonly type: 'BuildPatched'; readonly standingBy: number; readonly max: number } & BuildEventBase)
  /**
   * A scaling policy keeps another number of servers ready than before. Told at once if another policy decides, and else at most once a minute.
   */
  | ({
      readonly type: 'StandingByDecided'
      readonly standingBy: number
      readonly before: number
      readonly decider: Decider
    } & BuildEventBase)
  /** The build's spec was changed by `builds.update`. */
  | ({ readonly type: 'BuildUpdated' } & BuildEventBase)
  | ({ readonly type: 'BuildDeleted' } & BuildEventBase)
  /** Lists the template fields that this backend ignores because they concern only other backends. */
  | ({ readonly type: 'TemplateFieldsSkipped'; readonly fields: readonly string[] } & BuildEventBase)
  /**
   * Lists the keys of the build's metadata that GSDK clients use for settings of their own, such as `region` or a port's name: a
   * game that reads them through its client gets the client's value.
   */
  | ({ readonly type: 'MetadataKeysReserved'; readonly keys: readonly string[] } & BuildEventBase)
  | ({ readonly type: 'BuildHealthChanged'; readonly health: 'Healthy' | 'Unhealthy' } & BuildEventBase)
  | ({
      readonly type: 'ConditionChanged'
      readonly condition: ConditionType
      readonly status: boolean
    } & BuildEventBase)
  /** Something that the build's servers need, such as an image, is being fetched. Until then, its servers stay Pending. */
  | ({ readonly type: 'BuildPreparing'; readonly status: 'working' | 'done' | 'failed' } & BuildEventBase)
  | ({ readonly type: 'ServerCreated' } & ServerEventBase)
  | ({ readonly type: 'ServerStateChanged'; readonly from: ServerState; readonly to: ServerState } & ServerEventBase)
  | ({ readonly type: 'ServerHealthChanged'; readonly health: Health } & ServerEventBase)
  /**
   * Maintenance of the server, or of its `node`, begins at `beginsAt`, wall time in ms. Also emitted when that time changes.
   */
  | ({ readonly type: 'MaintenanceAnnounced'; readonly beginsAt: number; readonly node?: string } & ServerEventBase)
  /** The announced maintenance of the server or its node does not take place. */
  | ({ readonly type: 'MaintenanceWithdrawn' } & ServerEventBase)
  /** A caller has reserved the server until `until`, wall time in ms, or has changed that time. */
  | ({ readonly type: 'ServerReserved'; readonly until: number } & ServerEventBase)
  /** A call has ended the reservation of the server. */
  | ({ readonly type: 'ReservationReleased' } & ServerEventBase)
  /** The time for which the server was reserved is over. */
  | ({ readonly type: 'ReservationLapsed' } & ServerEventBase)
  /**
   * Labels, annotations, counters or lists of the server were changed, by a call or in the store. `changed`: which, such as `labels.map`
   * and `counters.rooms`, as many as 2 KiB can hold.
   */
  | ({ readonly type: 'ServerDataChanged'; readonly changed: readonly string[] } & ServerEventBase)
  /** The backend could not start the server; the start will be retried. */
  | ({ readonly type: 'ServerStartFailed'; readonly reason: string } & ServerEventBase)
  /** The server takes too long to start, so another is started beside it within `max`. */
  | ({ readonly type: 'ServerLate'; readonly reason: string } & ServerEventBase)
  | ({ readonly type: 'ServerEnding'; readonly reason: EndingReason; readonly crash: boolean } & ServerEventBase)
  | ({ readonly type: 'ServerRemoved' } & ServerEventBase)
  | ({ readonly type: 'Allocated'; readonly sessionID: string; readonly waitedMs: number } & ServerEventBase)
  /** Seats of the session are held for players who are on their way. */
  | ({ readonly type: 'SeatsReserved' } & SeatsEventBase)
  /** A call has freed seats that were held. */
  | ({ readonly type: 'SeatsReleased' } & SeatsEventBase)
  /** Seats are no longer held, because the players did not come in time. */
  | ({ readonly type: 'SeatsLapsed' } & SeatsEventBase)
  /**
   * A session has ended: its game has said so, or its server is gone. Emitted for every session, and at least once: a host that dies, or is
   * replaced as the leader, while it removes the session may have emitted it, and the next one does so again, with the same `sessionUid`.
   */
  | ({ readonly type: 'SessionEnded' } & SessionEnd & ServerEventBase)
  | ({ readonly type: 'PlayersChanged'; readonly players: readonly string[] } & ServerEventBase)
  /** Who did what, and from where. Says which build or server it was done to, if any. */
  | (AuditedBase & EventBase)
  | (AuditedBase & BuildEventBase)
  | (AuditedBase & ServerEventBase)
  /** Progress of a drain: how many servers remain, and how many of those are Active. */
  | ({ readonly type: 'DrainProgress'; readonly remaining: number; readonly active: number } & EventBase)
  /** An instance without a server record was found; it is destroyed unless a match may be running on it. */
  | ({ readonly type: 'OrphanFound'; readonly instance: Ref } & EventBase)
  /** The store had damaged or missing records when it was opened. The damaged ones were removed. `problems`: the first 100. */
  | ({ readonly type: 'StoreDamaged'; readonly problems: readonly string[] } & EventBase)
  /** A reconcile failed and will be retried. */
  | ({ readonly type: 'ReconcileFailed' } & BuildEventBase)
  | ({ readonly type: 'BackendUnavailable' | 'BackendRecovered' } & EventBase)
  | ({ readonly type: 'LeadershipChanged'; readonly leads: boolean } & EventBase)
  /** Event number `eventSeq` could not be delivered and will not be sent again. `url` is the webhook's scheme and host. */
  | ({
      readonly type: 'WebhookFailed'
      readonly url: string
      readonly eventSeq: number
      readonly reason: string
    } & EventBase)

export type FleetEventType = UnnumberedEvent['type']
/** `seq` is the event's number in this host's log, starting at 1, or 0 if the event is not logged. */
export type FleetEvent = UnnumberedEvent & { readonly seq: number }
export type EventOf<T extends FleetEventType> = Extract<UnnumberedEvent, { readonly type: T }> & {
  readonly seq: number
}
export type EventListener<T extends FleetEventType | '*'> = (
  event: T extends FleetEventType ? EventOf<T> : FleetEvent,
) => void

/** A listener by type of event; that for `*` receives all events. */
export type EventListeners = { readonly [T in FleetEventType | '*']?: EventListener<T> }

/** Yielded in place of events that are no longer in the log. */
export interface EventsDropped {
  readonly type: 'EventsDropped'
  /** Number of the last missing event. */
  readonly seq: number
  /** Number of the first missing event. */
  readonly from: number
  readonly message: string
}

export interface ReadEventsOptions {
  /** Number of the first event to read. Default: the next event to be emitted. */
  readonly from?: number
  /** Begins with so many of the newest events in the log, or with all if it has fewer. Has no effect with `from`. */
  readonly last?: number
  /** Number of the last event to read, with which the iteration ends. Default: it goes on with new events. */
  readonly to?: number
  /** Reads only events of these types, and `EventsDropped`. Default: all. */
  readonly types?: readonly FleetEventType[]
  /** Ends the iteration. */
  readonly signal?: AbortSignal
}

/** Reads events one after another. */
export interface EventReader extends AsyncIterableIterator<FleetEvent | EventsDropped> {
  /** Returns the next event if that needs no waiting, otherwise undefined. Absent if the source cannot tell. */
  take?(): FleetEvent | EventsDropped | undefined
}

/** The events in the log, oldest first. */
export interface LoggedEvents extends Iterable<FleetEvent> {
  /** Number of the last event, or 0 if there are none. */
  readonly last: number
}

export interface FleetEmitter {
  /** Numbers the event, adds it to the log, and calls the listeners of its type and of `*`. Never throws. */
  emit(event: UnnumberedEvent): void
  /** Adds a listener. The returned function removes it. A listener for `*` receives all events. */
  on<T extends FleetEventType | '*'>(type: T, listener: EventListener<T>): () => void
  /**
   * Reads events, first from the log and then as they are emitted. A reader that falls too far behind receives
   * `EventsDropped`.
   */
  read(options?: ReadEventsOptions): EventReader
  logged(): LoggedEvents
  /** Ends every iteration of `read` after the last event in the log. */
  close(): void
}

/** The names of all events, to check the names that a host app passes. */
const eventTypes: Readonly<Record<FleetEventType, true>> = {
  Allocated: true,
  Audited: true,
  BackendRecovered: true,
  BackendUnavailable: true,
  BuildCreated: true,
  BuildDeleted: true,
  BuildHealthChanged: true,
  BuildPatched: true,
  StandingByDecided: true,
  BuildPreparing: true,
  BuildUpdated: true,
  ConditionChanged: true,
  DrainProgress: true,
  LeadershipChanged: true,
  MaintenanceAnnounced: true,
  MaintenanceWithdrawn: true,
  MetadataKeysReserved: true,
  OrphanFound: true,
  PlayersChanged: true,
  ReconcileFailed: true,
  ReservationLapsed: true,
  ReservationReleased: true,
  SeatsLapsed: true,
  SeatsReleased: true,
  SeatsReserved: true,
  ServerCreated: true,
  ServerDataChanged: true,
  ServerEnding: true,
  ServerHealthChanged: true,
  ServerLate: true,
  ServerRemoved: true,
  ServerReserved: true,
  ServerStartFailed: true,
  ServerStateChanged: true,
  SessionEnded: true,
  StoreDamaged: true,
  TemplateFieldsSkipped: true,
  WebhookFailed: true,
}

function isEventType(type: unknown): type is FleetEventType {
  return typeof type === 'string' && Object.hasOwn(eventTypes, type)
}

/** Throws `invalid` if there is no such event. `owner` takes the name. */
export function checkEventType(owner: string, type: unknown): void {
  asEventType(owner, type)
}

/** Throws like `checkEventType`. */
export function asEventType(owner: string, type: unknown): FleetEventType {
  if (isEventType(type)) return type
  const hint = suggestion(String(type), Object.keys(eventTypes), 'events')
  throw new FleetError('invalid', `${owner}: there is no event ${shown(type)}; ${hint}`)
}
