/** Reads what no event says: specs, conditions and the progress of changed builds, and who is expected in a match. */
import type { Fleet } from '../../../contracts/fleet.js'
import { keyOf, type Ref } from '../../../rules/model/resources.js'
import { type Model, serversOf, sessionsIn, type StreamedEvent, withBuild, withPlayers, withSeats } from './model.js'

export interface Rereads {
  /** Reads the builds that these events may have changed, soon. */
  builds(events: readonly StreamedEvent[]): void
  /** Reads who is expected in the matches that these events began, and their seats if the events changed them. */
  players(events: readonly StreamedEvent[]): void
  /** What is being read does not reach the model. */
  forget(): void
}

interface Source {
  readonly builds: Pick<Fleet['builds'], 'get'>
  readonly sessions: Pick<Fleet['sessions'], 'get'>
}

/** `model`: events that the page applies change its value while a read is under way. */
export function rereads(fleet: Source, model: { value: Model }): Rereads {
  const changed = changedBuilds(fleet, model)
  const begun = begunSessions(fleet, model)
  return {
    builds: changed.add,
    players: begun.add,
    forget() {
      changed.forget()
      begun.forget()
    },
  }
}

/** How long a changed build may wait, so that a burst of changes is one request. */
const rereadMs = 400

function changedBuilds(fleet: Source, model: { value: Model }) {
  const waiting = new Map<string, Ref>()
  let timer: ReturnType<typeof setTimeout> | undefined
  /** Undefined also if what is being read no longer applies. */
  let reading: string | undefined
  let isBusy = false
  let times = 0
  const schedule = () => {
    if (waiting.size > 0 && !isBusy) timer ??= setTimeout(() => void run(), rereadMs)
  }
  const run = async () => {
    timer = undefined
    isBusy = true
    const before = times
    const refs = [...waiting.values()]
    waiting.clear()
    for (const ref of refs) {
      if (times !== before) break
      const key = keyOf(ref)
      reading = key
      try {
        const build = await fleet.builds.get(ref)
        if (reading === key) model.value = withBuild(model.value, build)
      } catch {
        // It is deleted, which an event says, or the host is away, after which the page reads everything.
      }
    }
    isBusy = false
    schedule()
  }
  return {
    add(events: readonly StreamedEvent[]) {
      for (const event of events) {
        if (!('build' in event)) continue
        const key = keyOf(event.build)
        if (event.type === 'BuildDeleted') {
          waiting.delete(key)
          if (reading === key) reading = undefined
        } else if (mayChange(model.value, event)) waiting.set(key, event.build)
      }
      schedule()
    },
    forget() {
      waiting.clear()
      reading = undefined
      times++
    },
  }
}

type BuildEvent = Extract<StreamedEvent, { readonly build: Ref }>

function mayChange({ builds }: Model, event: BuildEvent): boolean {
  const known = builds.get(keyOf(event.build))
  // The servers of a deleted build go on ending for a while.
  if (known === undefined) return event.type === 'BuildCreated'
  return known.status.rollout !== undefined || !unrelated.has(event.type)
}

const unrelated: ReadonlySet<StreamedEvent['type']> = new Set([
  'ServerCreated',
  'ServerStateChanged',
  'ServerHealthChanged',
  'ServerDataChanged',
  'SessionEnded',
  'ServerRemoved',
  'Allocated',
  'PlayersChanged',
  'SeatsReserved',
  'SeatsReleased',
  'SeatsLapsed',
  'Audited',
])

/** In a burst, who is expected is not worth a request for each: only the latest are read. */
const maxSessionsToRead = 10

function begunSessions(fleet: Source, model: { value: Model }) {
  const waiting = new Map<string, Ref>()
  let isBusy = false
  let times = 0
  const run = async () => {
    isBusy = true
    for (let next = lastOf(waiting); next !== undefined; next = lastOf(waiting)) {
      const [sessionID, build] = next
      waiting.delete(sessionID)
      const before = times
      try {
        const session = await fleet.sessions.get(sessionID)
        if (times === before && session.state !== 'Ended')
          model.value = withSeats(withPlayers(model.value, keyOf(build), session), keyOf(build), session)
      } catch {
        // The match is over already.
      }
    }
    isBusy = false
  }
  return {
    add(events: readonly StreamedEvent[]) {
      for (const event of events) {
        if (event.type === 'Allocated' && lacksPlayers(model.value, event)) waiting.set(event.sessionID, event.build)
        const changed = sessionWithOtherSeats(model.value, event)
        if (changed) waiting.set(changed.sessionID, changed.build)
      }
      for (const sessionID of [...waiting.keys()].slice(0, -maxSessionsToRead)) waiting.delete(sessionID)
      if (!isBusy) void run()
    },
    forget() {
      waiting.clear()
      times++
    },
  }
}

function lastOf<T>(map: ReadonlyMap<string, T>): readonly [string, T] | undefined {
  return [...map].at(-1)
}

/** The events do not say how many seats of the session are held now. */
function sessionWithOtherSeats(
  model: Model,
  event: StreamedEvent,
): { readonly sessionID: string; readonly build: Ref } | undefined {
  if (event.type === 'SeatsReserved' || event.type === 'SeatsReleased' || event.type === 'SeatsLapsed') return event
  if (event.type !== 'PlayersChanged') return undefined
  // Some of them may have come to seats that were held.
  const session = serversOf(model, keyOf(event.build)).get(keyOf(event.server))?.session
  return session?.seats && session.seats.held > 0 ? { sessionID: session.id, build: event.build } : undefined
}

/** The event of an allocation does not say who is expected to connect. */
function lacksPlayers(model: Model, event: Extract<StreamedEvent, { readonly type: 'Allocated' }>): boolean {
  const row = serversOf(model, keyOf(event.build)).get(keyOf(event.server))
  const session = row && sessionsIn(row).find(({ id }) => id === event.sessionID)
  return session !== undefined && session.areExpected === undefined && session.players.length === 0
}
