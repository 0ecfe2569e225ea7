/** Applies events to the model. Pure; maps that do not change stay the same objects. */
import type { FleetEvent } from '../../../contracts/events.js'
import { keyOf, type Ref, type ServerState } from '../../../rules/model/resources.js'
import {
  type Crash,
  type Minute,
  minuteMs,
  type Model,
  type ServerRow,
  sessionsIn,
  type StreamedEvent,
  withSessions,
} from './model.js'

/** What the page keeps. */
export const maxEvents = 10_000
export const maxCrashes = 200
const maxMinutes = 60

/** Applying events that the model already contains changes nothing in the end, provided that the newest ones follow. */
export function reduce(model: Model, events: readonly StreamedEvent[]): Model {
  return logEvents(applyToServers(model, events), events)
}

/** Only the builds and servers: for events that are in the log already, when a snapshot replaces what they did. */
export function applyToServers(model: Model, events: readonly StreamedEvent[]): Model {
  const draft = new Draft(model)
  for (const event of events) apply(draft, event)
  return draft.result()
}

class Draft {
  readonly #model: Model
  #servers: Map<string, ReadonlyMap<string, ServerRow>> | undefined
  #builds: Map<string, Model['builds'] extends ReadonlyMap<string, infer B> ? B : never> | undefined
  readonly #copied = new Map<string, Map<string, ServerRow>>()

  constructor(model: Model) {
    this.#model = model
  }

  get(build: string, server: string): ServerRow | undefined {
    return (this.#servers ?? this.#model.servers).get(build)?.get(server)
  }

  set(row: ServerRow): void {
    this.#of(row.build).set(keyOf(row), row)
  }

  remove(build: string, server: string): void {
    if (this.get(build, server)) this.#of(build).delete(server)
  }

  removeBuild(build: string): void {
    this.#builds ??= new Map(this.#model.builds)
    this.#builds.delete(build)
  }

  /** What the model had of it, or a snapshot has: it is the one that was created after a deletion, or will be replaced by it. */
  restoreBuild(build: string): void {
    const known = this.#model.builds.get(build)
    if (known) this.#builds?.set(build, known)
  }

  #of(build: string): Map<string, ServerRow> {
    const known = this.#copied.get(build)
    if (known) return known
    this.#servers ??= new Map(this.#model.servers)
    const copy = new Map(this.#servers.get(build))
    this.#servers.set(build, copy)
    this.#copied.set(build, copy)
    return copy
  }

  result(): Model {
    if (!this.#servers && !this.#builds) return this.#model
    return {
      ...this.#model,
      servers: this.#servers ?? this.#model.servers,
      builds: this.#builds ?? this.#model.builds,
    }
  }
}

function apply(draft: Draft, event: StreamedEvent): void {
  if (event.type === 'BuildDeleted') draft.removeBuild(keyOf(event.build))
  if (event.type === 'BuildCreated') draft.restoreBuild(keyOf(event.build))
  if (!('server' in event) || !('build' in event)) return
  const build = keyOf(event.build)
  const known = draft.get(build, keyOf(event.server))
  const row = known ?? newRow(event.server, build, event.at)
  switch (event.type) {
    case 'ServerCreated':
      if (!known) draft.set(row)
      break
    case 'ServerStateChanged':
      draft.set(inState(row, event.to, event.at))
      break
    case 'ServerHealthChanged':
      draft.set({ ...row, health: event.health })
      break
    case 'ServerStartFailed':
    case 'ServerLate':
      draft.set({ ...row, message: event.message })
      break
    case 'ServerEnding':
      draft.set({ ...inState(row, 'Terminating', event.at), message: event.message })
      break
    case 'Allocated':
      // A snapshot may know its players already.
      if (!sessionsIn(row).some(({ id }) => id === event.sessionID))
        draft.set({
          ...row,
          ...withSessions([...sessionsIn(row), { id: event.sessionID, startedAt: event.at, players: [] }]),
        })
      break
    case 'SessionEnded':
      if (known) draft.set({ ...known, ...withSessions(sessionsIn(known).filter(({ id }) => id !== event.sessionID)) })
      break
    case 'ServerRemoved':
      draft.remove(build, keyOf(event.server))
      break
    case 'PlayersChanged':
      // Of several sessions, the game does not say in which they are.
      if (known?.session)
        draft.set({
          ...known,
          ...withSessions(sessionsIn(known).map((one) => ({ ...one, players: event.players, areExpected: false }))),
        })
      break
    case 'MaintenanceAnnounced':
      if (known) draft.set({ ...known, maintenance: event.beginsAt })
      break
    case 'MaintenanceWithdrawn':
      if (known) draft.set({ ...known, maintenance: undefined })
      break
    case 'ServerReserved':
      if (known) draft.set({ ...known, reservedUntil: event.until })
      break
    case 'ReservationReleased':
    case 'ReservationLapsed':
      if (known) draft.set({ ...known, reservedUntil: undefined })
      break
    // They change nothing that a row shows.
    case 'Audited':
    case 'SeatsReserved':
    case 'SeatsReleased':
    case 'SeatsLapsed':
    case 'ServerDataChanged':
      break
  }
}

function newRow({ name, namespace }: Ref, build: string, since: number): ServerRow {
  return { name, namespace, build, state: 'Pending', health: 'Unknown', since }
}

function inState(row: ServerRow, state: ServerState, since: number): ServerRow {
  if (row.state === state) return row
  // What the fleet said of the state before no longer applies.
  const reservedUntil = state === 'Active' || state === 'Terminating' ? undefined : row.reservedUntil
  return { ...row, state, since, message: undefined, reservedUntil }
}

function logEvents(model: Model, events: readonly StreamedEvent[]): Model {
  const last = model.events.at(-1)?.seq ?? 0
  const fresh = events.filter(({ seq }) => seq > last)
  if (fresh.length === 0) return model
  const dropped = fresh.reduce((sum, one) => (one.type === 'EventsDropped' ? sum + one.seq - one.from + 1 : sum), 0)
  const all = [...model.events, ...fresh]
  const trimmed = all.slice(0, Math.max(0, all.length - maxEvents))
  const crashes = fresh.flatMap((event) => crashIn(event)).reverse()
  return {
    ...model,
    events: all.slice(-maxEvents),
    dropped: model.dropped + dropped + trimmed.filter(({ type }) => type !== 'EventsDropped').length,
    crashes: crashes.length === 0 ? model.crashes : [...crashes, ...model.crashes].slice(0, maxCrashes),
    minutes: countMinutes(model.minutes, fresh),
  }
}

/** Whether the host's log may have older events, for which the page has room. */
export function hasOlder({ events }: Model): boolean {
  const [first] = events
  return first !== undefined && first.type !== 'EventsDropped' && first.seq > 1 && events.length < maxEvents
}

/** The events before those of the model, oldest first. */
export function withOlder(model: Model, events: readonly StreamedEvent[]): Model {
  const [first] = model.events
  if (first === undefined || events.at(-1)?.seq !== first.seq - 1) return model
  const [oldest] = events
  const crashes = events.flatMap((event) => crashIn(event)).reverse()
  return {
    ...model,
    events: [...events, ...model.events],
    dropped: model.dropped + (oldest?.type === 'EventsDropped' ? oldest.seq : 0),
    crashes: [...model.crashes, ...crashes].slice(0, maxCrashes),
    minutes: countMinutes(model.minutes, events),
  }
}

function crashIn(event: StreamedEvent): readonly Crash[] {
  if (event.type !== 'ServerEnding' || !event.crash) return []
  const { seq, at, build, server, reason, message } = event
  return [{ seq, at, build: keyOf(build), server, reason, message }]
}

function countMinutes(before: readonly Minute[], events: readonly StreamedEvent[]): readonly Minute[] {
  const counted = events.filter((event): event is FleetEvent => countsIn(event))
  if (counted.length === 0) return before
  const minutes = new Map(before.map((minute) => [minute.at, minute]))
  for (const event of counted) {
    const at = Math.floor(event.at / minuteMs) * minuteMs
    const { allocations, longestWaitMs, crashes } = minutes.get(at) ?? { allocations: 0, longestWaitMs: 0, crashes: 0 }
    const isAllocation = event.type === 'Allocated'
    minutes.set(at, {
      at,
      allocations: allocations + (isAllocation ? 1 : 0),
      longestWaitMs: isAllocation ? Math.max(longestWaitMs, event.waitedMs) : longestWaitMs,
      crashes: crashes + (isAllocation ? 0 : 1),
    })
  }
  return [...minutes.values()].toSorted((a, b) => a.at - b.at).slice(-maxMinutes)
}

function countsIn(event: StreamedEvent): boolean {
  return event.type === 'Allocated' || (event.type === 'ServerEnding' && event.crash)
}
