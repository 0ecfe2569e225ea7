/** A host that speaks the real API about 10,000 servers which do not exist, and whose events the caller makes. */
import { createServer, type Server } from 'node:http'
import { dashboardRoutes } from '../../src/dashboard/index.js'
import type { StreamedEvent } from '../../src/http/index.js'
import type { GameServer, GameServerBuild } from '../../src/index.js'
import type { ReadEventsOptions } from '../../src/contracts/events.js'
import { build, buildID, fleetOf } from '../http/fleet.js'

export const buildCount = 10
export const serversOfBuild = 1_000
/** As many as a host keeps by default. */
const logSize = 10_000

export interface LargeFleet {
  readonly server: Server
  /** Emits this many changes of state, of one server after the other. Resolves when a reader has taken all but the last few. */
  change(count: number): Promise<void>
  /** Adds this many changes of state to the log. */
  log(count: number): void
}

const since = new Date(0).toISOString()
const refused = () => Promise.reject(new Error('not in this fleet'))
const refOf = (name: string) => ({ namespace: 'default', name })

export function largeFleet(): LargeFleet {
  const log: StreamedEvent[] = []
  let last = 0
  let taken = 0
  let wake = () => {}
  let drained = () => {}
  async function* events({
    last: newest = 0,
    from = last + 1 - newest,
    to = Infinity,
    types,
    signal,
  }: ReadEventsOptions = {}) {
    signal?.addEventListener('abort', () => wake())
    for (let seq = Math.max(from, last - log.length + 1); signal?.aborted !== true && seq <= to;) {
      const event = log[seq - (last - log.length) - 1]
      if (event !== undefined) {
        if (types === undefined || types.some((type) => type === event.type)) yield event
        taken = Math.max(taken, seq++)
        if (last - taken < logSize / 2) drained()
      } else await new Promise<void>((resolve) => (wake = resolve))
    }
  }
  const add = (count: number) => {
    for (let n = 0; n < count; n++) {
      log.push(changeOf(++last))
      if (log.length > logSize) log.shift()
    }
  }
  const builds = Array.from({ length: buildCount }, (_, index) => buildOf(`arena-${index}`))
  const none = fleetOf(refused)
  const fleet = {
    ...none,
    builds: { ...none.builds, list: async () => builds, get: async () => builds[0] },
    servers: {
      ...none.servers,
      list: async (filter: { readonly build?: { readonly name: string } }) => serversIn(filter.build?.name ?? ''),
    },
    sessions: { get: refused, list: async () => [], ofPlayer: refused, end: refused },
    allocate: refused,
    events,
    stats: () => ({ builds: [] }),
    health: async () => ({ ok: true, problems: [] }),
    problems: async () => [],
  }
  const routes = dashboardRoutes(fleet as never)
  return {
    server: createServer(routes.nodeHandler),
    log: add,
    async change(count) {
      add(count)
      const ready = new Promise<void>((resolve) => (drained = resolve))
      wake()
      if (last - taken >= logSize / 2) await ready
    },
  }
}

const states = ['StandingBy', 'Active'] as const

function changeOf(seq: number): StreamedEvent {
  const build = refOf(`arena-${seq % buildCount}`)
  const server = refOf(`${build.name}-${Math.floor(seq / buildCount) % serversOfBuild}`)
  const turn = Math.floor(seq / (buildCount * serversOfBuild)) % 2
  const [from, to] = turn === 0 ? states : states.toReversed()
  if (from === undefined || to === undefined) throw new Error('two states')
  const message = `${server.name} went from ${from} to ${to}`
  return { type: 'ServerStateChanged', seq, at: Date.now(), build, server, from, to, message }
}

function buildOf(name: string): GameServerBuild {
  const status = { currentActive: 0, currentStandingBy: 0, crashesCount: 0, currentPending: 0, currentInitializing: 0 }
  return {
    apiVersion: 'v1',
    kind: 'GameServerBuild',
    metadata: refOf(name),
    spec: { ...build({ standingBy: serversOfBuild, max: serversOfBuild }).spec, buildID: `${buildID}-${name}` },
    status: { ...status, health: 'Healthy', currentStandingByReadyDesired: '0/0' },
  }
}

/** On twenty nodes, as many of each build. */
function placeOf(index: number) {
  const node = index % 20
  return { publicIP: `203.0.113.${node}`, ports: `7777:${20_000 + index}`, nodeName: `node-${node}` }
}

function serversIn(name: string): readonly GameServer[] {
  return Array.from({ length: serversOfBuild }, (_, index) => ({
    apiVersion: 'v1',
    kind: 'GameServer',
    metadata: { ...refOf(`${name}-${index}`), creationTimestamp: since },
    status: { state: 'StandingBy', health: 'Healthy', ...placeOf(index) },
  }))
}
