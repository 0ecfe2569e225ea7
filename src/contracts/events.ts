/**
 * What a fleet tells its host: one union of events, each with a sentence for people, and how they are told.
 */
import type { ConditionType, EndingReason, Health, Ref, ServerState } from '../rules/model/resources.js'

interface About {
  /** Wall time in ms. */
  readonly at: number
  /** A sentence for people. */
  readonly message: string
}

interface AboutBuild extends About {
  readonly build: Ref
}

interface AboutServer extends AboutBuild {
  readonly server: Ref
}

export type UnnumberedEvent =
  | ({ readonly type: 'BuildCreated' } & AboutBuild)
  | ({ readonly type: 'BuildPatched'; readonly standingBy: number; readonly max: number } & AboutBuild)
  /** Its spec was changed by `builds.update`. */
  | ({ readonly type: 'BuildUpdated' } & AboutBuild)
  | ({ readonly type: 'BuildDeleted' } & AboutBuild)
  /** Fields of the template that this backend leaves out, since they only concern another. Said once a build. */
  | ({ readonly type: 'TemplateFieldsSkipped'; readonly fields: readonly string[] } & AboutBuild)
  | ({ readonly type: 'BuildHealthChanged'; readonly health: 'Healthy' | 'Unhealthy' } & AboutBuild)
  | ({ readonly type: 'ConditionChanged'; readonly condition: ConditionType; readonly status: boolean } & AboutBuild)
  /** Something that its servers need is being fetched, such as an image; they stay Pending meanwhile. */
  | ({ readonly type: 'BuildPreparing'; readonly status: 'working' | 'done' | 'failed' } & AboutBuild)
  | ({ readonly type: 'ServerCreated' } & AboutServer)
  | ({ readonly type: 'ServerStateChanged'; readonly from: ServerState; readonly to: ServerState } & AboutServer)
  | ({ readonly type: 'ServerHealthChanged'; readonly health: Health } & AboutServer)
  /** The backend could not start it now; it is tried again. */
  | ({ readonly type: 'ServerStartFailed'; readonly reason: string } & AboutServer)
  | ({ readonly type: 'ServerEnding'; readonly reason: EndingReason; readonly crash: boolean } & AboutServer)
  | ({ readonly type: 'ServerRemoved' } & AboutServer)
  | ({ readonly type: 'Allocated'; readonly sessionID: string; readonly waitedMs: number } & AboutServer)
  | ({ readonly type: 'PlayersChanged'; readonly players: readonly string[] } & AboutServer)
  /** A drain goes on: servers still there, and how many of them have a match. */
  | ({ readonly type: 'DrainProgress'; readonly remaining: number; readonly active: number } & About)
  /** An instance without a record: it is ended, unless a match may be running on it. */
  | ({ readonly type: 'OrphanFound'; readonly instance: Ref } & About)
  /** A pass could not be carried out and is tried again. */
  | ({ readonly type: 'ReconcileFailed' } & AboutBuild)
  | ({ readonly type: 'BackendUnavailable' | 'BackendRecovered' } & About)
  | ({ readonly type: 'LeadershipChanged'; readonly leads: boolean } & About)
  /** A dead letter: event number `lost` was given up after the last attempt to send it to `url`. */
  | ({
      readonly type: 'WebhookFailed'
      readonly url: string
      readonly eventSeq: number
      readonly reason: string
    } & About)

export type FleetEventType = UnnumberedEvent['type']
/** `seq` counts the events that this host has logged, from 1; it is 0 for one that is not logged. */
export type FleetEvent = UnnumberedEvent & { readonly seq: number }
export type EventOf<T extends FleetEventType> = Extract<UnnumberedEvent, { readonly type: T }> & {
  readonly seq: number
}
export type EventListener<T extends FleetEventType | '*'> = (
  event: T extends FleetEventType ? EventOf<T> : FleetEvent,
) => void

/** Stands in place of events that the log no longer holds. */
export interface EventsDropped {
  readonly type: 'EventsDropped'
  /** The last of those missing. */
  readonly seq: number
  /** The first of those missing. */
  readonly from: number
  readonly message: string
}

export interface ReadEventsOptions {
  /** Number of the first event wanted. Default: the next one to happen. */
  readonly from?: number
  /** Ends the reading. */
  readonly signal?: AbortSignal
}

/** What is still in the log, oldest first. */
export interface LoggedEvents extends Iterable<FleetEvent> {
  /** Number of the last event; 0 when there was none. */
  readonly last: number
}

export interface FleetEmitter {
  /** Numbers the event, keeps it in the log and hands it to whoever listens to its type or to `*`. Never throws. */
  emit(event: UnnumberedEvent): void
  /** Listens until the returned function is called. `*` hears all. */
  on<T extends FleetEventType | '*'>(type: T, listener: EventListener<T>): () => void
  /** Events as they come, beginning in the log. A reader that falls behind the log gets `EventsDropped` and goes on. */
  read(options?: ReadEventsOptions): AsyncIterableIterator<FleetEvent | EventsDropped>
  /** What the log holds, oldest first. */
  logged(): LoggedEvents
  /** Ends the reading of events, behind the last one there is. */
  close(): void
}
