/** The state of the page: the fleet's model and the connection, as signals that views read. */
import { computed, signal } from '@preact/signals'
import { forgetDrafts } from '../changes/drafts.js'
import { fleetClient } from '../../../client/fleet-client.js'
import { FleetError } from '../../../contracts/errors.js'
import type { FleetHealth, FleetStats } from '../../../contracts/fleet.js'
import type { GameServer } from '../../../rules/model/wire.js'
import { keyOf, type Ref } from '../../../rules/model/resources.js'
import { readStream } from './connection.js'
import { emptyModel, type Model, type Snapshot, type StreamedEvent, withSnapshot } from './model.js'
import { applyToServers, reduce } from './reduce.js'
import { rereads } from './rereads.js'
import { mayChangeProblems } from './problems.js'
import { type KnownProblems, nothingRead, problemReader } from './problem-reader.js'
import { baseUrl, callHost, keepToken, rights } from './access.js'
import { atMostEvery } from './at-most-every.js'

export type Link =
  | { readonly state: 'connecting' | 'live' }
  | { readonly state: 'lost'; readonly since: number; readonly error: FleetError }
  /** The host wants to know who is calling, or does not allow it. */
  | { readonly state: 'refused'; readonly error: FleetError }

export const model = signal<Model>(emptyModel)
export const link = signal<Link>({ state: 'connecting' })
/** How often the page has connected to the host. What a view reads by itself it reads again when this changes. */
export const connections = signal(0)
/** False until the first snapshot is there. */
export const isLoaded = signal(false)
export const health = signal<FleetHealth | undefined>(undefined)
export const stats = signal<FleetStats | undefined>(undefined)
/** What is wrong, the worst first. */
export const problems = signal<KnownProblems>(nothingRead)
/** Wall time in ms, a few times a minute, for times that are shown as ages. */
export const now = signal(Date.now())

export const fleet = fleetClient({
  url: baseUrl,
  retries: 1,
  async fetch(url, init) {
    try {
      const response = await callHost(url, init)
      if (response.status === 401) refuse(new FleetError('unauthenticated', 'the host no longer knows the caller'))
      return response
    } catch (error) {
      if (FleetError.is(error, 'unauthenticated')) refuse(error)
      throw error
    }
  },
})

/** The session of the host app, or the token, has ended while the event stream is still open. */
function refuse(error: FleetError): void {
  running?.abort()
  link.value = { state: 'refused', error }
}

const reread = rereads(fleet, model)
const problemsReader = problemReader(fleet, problems)

/** Until when what the page shows is known to be true, wall time in ms, while the fleet cannot be read. */
const trueUntil = signal<number | undefined>(undefined)

export interface Staleness {
  /** Wall time in ms. */
  readonly dataFrom: number
  readonly why: string
}

/** Set while the page shows what was and may no longer be. Actions are then off. */
export const staleness = computed<Staleness | undefined>(() => {
  if (!isLoaded.value || trueUntil.value === undefined) return undefined
  const dataFrom = trueUntil.value
  if (link.value.state === 'lost') return { dataFrom, why: link.value.error.message }
  if (link.value.state !== 'live') return undefined
  return { dataFrom, why: failure.value?.message ?? 'reading the fleet again' }
})

/** Changes come in batches, so that 500 events a second are a few updates of the page. */
const batchMs = 150
const summaryMs = 5_000
/** What no event says of problems, such as why a server is still Pending. */
const problemsMs = 30_000
const parallel = 6

let batch: StreamedEvent[] = []
/** Events that arrived since the snapshot was asked for; undefined while none is. */
let sinceSnapshot: StreamedEvent[] | undefined
let running: AbortController | undefined
/** Whether the connection has brought an event yet. */
let isFirst = true

/** Connects, or connects again with another token. */
export function connect(): void {
  running?.abort()
  running = new AbortController()
  const { signal: stop } = running
  link.value = { state: 'connecting' }
  problemsReader.restart(stop)
  void rights.read()
  void readStream(
    `${baseUrl}/api/v1/events`,
    {
      fetch: callHost,
      onOpen(isNewLog) {
        if (isNewLog) startOver()
        isFirst = true
        link.value = { state: 'live' }
        connections.value++
        problemsReader.request()
        void snapshot(stop)
      },
      onEvent: add,
      onLost(error, isFinal, heardAt = Date.now()) {
        trueUntil.value ??= heardAt
        if (isFinal) link.value = { state: 'refused', error }
        else if (link.value.state !== 'lost') link.value = { state: 'lost', since: Date.now(), error }
      },
    },
    stop,
  )
  const timer = setInterval(() => {
    now.value = Date.now()
    if (!document.hidden) void summary(stop)
  }, summaryMs)
  const problemsTimer = setInterval(() => {
    if (!document.hidden) problemsReader.request()
  }, problemsMs)
  stop.addEventListener('abort', () => {
    clearInterval(timer)
    clearInterval(problemsTimer)
  })
  void summary(stop)
}

/** Forgets the token, what it has shown, and edits that are not applied: a spec may contain secrets. */
export function signOut(): void {
  keepToken('')
  forgetDrafts()
  rights.forget()
  reread.forget()
  batch = []
  model.value = emptyModel
  isLoaded.value = false
  health.value = undefined
  stats.value = undefined
  problems.value = nothingRead
  trueUntil.value = undefined
  failure.value = undefined
  connect()
}

/** The numbers of the events begin again. */
function startOver(): void {
  batch = []
  model.value = { ...model.value, events: [], crashes: [], minutes: [], dropped: 0 }
}

function add(event: StreamedEvent): void {
  if (batch.length === 0) setTimeout(flush, batchMs)
  batch.push(event)
  sinceSnapshot?.push(event)
  // What was missing when the page connected, the snapshot has.
  if (event.type === 'EventsDropped' && !isFirst) snapshotAfterLoss()
  isFirst = false
}

function flush(): void {
  const events = batch
  batch = []
  model.value = reduce(model.value, events)
  if (mayChangeProblems(model.value, problems.value.list ?? [], events)) problemsReader.request()
  // The log of the past says nothing about the builds of now, which the snapshot has.
  if (sinceSnapshot === undefined && isLoaded.value) rereadAfter(events)
  if (hasMissedEvents(events) && isLoaded.value && running) void snapshot(running.signal)
}

function rereadAfter(events: readonly StreamedEvent[]): void {
  reread.builds(events)
  reread.players(events)
}

/** While another host leads, this one has no events about the fleet. The log of the past ends with what the page knows. */
function hasMissedEvents(events: readonly StreamedEvent[]): boolean {
  const changes = events.filter((event) => event.type === 'LeadershipChanged')
  const isFollower = failure.value?.code === 'not-leader'
  return changes.length > 1 || changes.at(-1)?.leads === isFollower
}

const afterLossMs = 10_000

/** A page that cannot keep up loses events again and again, and would fall behind further. */
const snapshotAfterLoss = atMostEvery(afterLossMs, () => {
  if (isLoaded.value && running && link.value.state === 'live') void snapshot(running.signal)
})

/** Everything once. Events that arrive meanwhile may be newer or older than it: applying them all again is right. */
async function snapshot(stop: AbortSignal): Promise<void> {
  const arrived: StreamedEvent[] = []
  const askedAt = Date.now()
  sinceSnapshot = arrived
  try {
    const taken = await readSnapshot(stop)
    if (sinceSnapshot !== arrived) return
    sinceSnapshot = undefined
    model.value = applyToServers(withSnapshot(model.value, taken), arrived)
    // The lists may be older than these events: a build may have been created or edited, and a match have begun.
    rereadAfter(arrived)
    isLoaded.value = true
    failure.value = undefined
    trueUntil.value = undefined
  } catch (error) {
    // A later snapshot says what is true.
    if (stop.aborted || sinceSnapshot !== arrived) return
    sinceSnapshot = undefined
    failure.value = FleetError.is(error) ? error : new FleetError('internal', String(error))
    trueUntil.value ??= askedAt
    // Another host leads, or the store is away: the same again, until it works or the connection ends.
    setTimeout(() => {
      if (!stop.aborted && sinceSnapshot === undefined && link.value.state === 'live') void snapshot(stop)
    }, summaryMs)
  }
}

/** Why the fleet cannot be read, although this host answers. */
export const failure = signal<FleetError | undefined>(undefined)

async function readSnapshot(stop: AbortSignal): Promise<Snapshot> {
  const options = { signal: stop }
  const [builds, sessions] = await Promise.all([fleet.builds.list(options), fleet.sessions.list(options)])
  const servers = new Map<string, readonly GameServer[]>()
  const left = [...builds]
  const read = async () => {
    for (let build = left.pop(); build !== undefined; build = left.pop()) {
      servers.set(keyOf(build.metadata), await serversOf(build.metadata, stop))
    }
  }
  await Promise.all(Array.from({ length: parallel }, read))
  return { builds, servers, sessions }
}

/** A build can be deleted between the list of builds and this call. */
async function serversOf(build: Ref, stop: AbortSignal): Promise<readonly GameServer[]> {
  try {
    return await fleet.servers.list({ build, signal: stop })
  } catch (error) {
    if (FleetError.is(error, 'not-found')) return []
    throw error
  }
}

let summaryFor: AbortSignal | undefined

/** What no event says: callers that wait, and the health of this host. A slow host is asked once at a time. */
async function summary(stop: AbortSignal): Promise<void> {
  if (summaryFor === stop) return
  summaryFor = stop
  try {
    const [nextHealth, nextStats] = await Promise.all([fleet.health({ signal: stop }), fleet.stats({ signal: stop })])
    if (stop.aborted) return
    health.value = nextHealth
    stats.value = nextStats
  } catch {
    // What was so may no longer be: nothing is said of it until the host answers again.
    if (stop.aborted) return
    health.value = undefined
    stats.value = undefined
  } finally {
    if (summaryFor === stop) summaryFor = undefined
  }
}
