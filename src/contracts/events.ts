/** The union of all fleet events, each with a human-readable message, and the interfaces that emit and read them. */
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

export type UnnumberedEvent =
  | ({ readonly type: 'BuildCreated' } & BuildEventBase)
  | ({ readonly type: 'BuildPatched'; readonly standingBy: number; readonly max: number } & BuildEventBase)
  /** The build's spec was changed by `builds.update`. */
  | ({ readonly type: 'BuildUpdated' } & BuildEventBase)
  | ({ readonly type: 'BuildDeleted' } & BuildEventBase)
  /** Lists the template fields that this backend ignores because they concern only other backends. */
  | ({ readonly type: 'TemplateFieldsSkipped'; readonly fields: readonly string[] } & BuildEventBase)
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
  /** The backend could not start the server; the start will be retried. */
  | ({ readonly type: 'ServerStartFailed'; readonly reason: string } & ServerEventBase)
  | ({ readonly type: 'ServerEnding'; readonly reason: EndingReason; readonly crash: boolean } & ServerEventBase)
  | ({ readonly type: 'ServerRemoved' } & ServerEventBase)
  | ({ readonly type: 'Allocated'; readonly sessionID: string; readonly waitedMs: number } & ServerEventBase)
  | ({ readonly type: 'PlayersChanged'; readonly players: readonly string[] } & ServerEventBase)
  /** Progress of a drain: how many servers remain, and how many of those are Active. */
  | ({ readonly type: 'DrainProgress'; readonly remaining: number; readonly active: number } & EventBase)
  /** An instance without a server record was found; it is destroyed unless a match may be running on it. */
  | ({ readonly type: 'OrphanFound'; readonly instance: Ref } & EventBase)
  /** A reconcile failed and will be retried. */
  | ({ readonly type: 'ReconcileFailed' } & BuildEventBase)
  | ({ readonly type: 'BackendUnavailable' | 'BackendRecovered' } & EventBase)
  | ({ readonly type: 'LeadershipChanged'; readonly leads: boolean } & EventBase)
  /** Event number `eventSeq` could not be delivered to `url` and will not be sent again. */
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
  /** Ends the iteration. */
  readonly signal?: AbortSignal
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
  read(options?: ReadEventsOptions): AsyncIterableIterator<FleetEvent | EventsDropped>
  logged(): LoggedEvents
  /** Ends every iteration of `read` after the last event in the log. */
  close(): void
}
