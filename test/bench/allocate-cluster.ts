/**
 * Benchmarks allocations on a cluster, the whole path: over HTTP, with a real pod on a hollow node for each server, and games
 * that send heartbeats. The baseline is plain conditional status writes with as many callers, in turns with the allocations and
 * in the same process. After each round the pods that were allocated are deleted, so every round begins with the same fleet.
 * Skipped if there is no cluster or the hollow nodes have too little capacity.
 */
import { randomUUID } from 'node:crypto'
import { serve } from 'gamekeeper/http'
import type { KubernetesApi } from '../../adapters/kubernetes/client/api.js'
import { type KubeObject, pathOf, pods as podType } from '../../adapters/kubernetes/client/kube-objects.js'
import { makeNamespace, removeNamespace } from '../adapters/kubernetes/support/cluster.js'
import {
  hollowBuild,
  HollowGames,
  removePod,
  removePods,
  standingBy,
} from '../adapters/kubernetes/support/scale-fleet.js'
import { BareWrites, connections, listServers, newApi, whenSaved } from './bare-writes.js'
import { median } from './cost.js'
import { hasCapacity } from './kubernetes-start.js'
import { onCluster } from './kubernetes.js'
import { post, type Target } from './load.js'
import { type Load, loadThrough, openConnections } from './many-connections.js'
import { type Bench, ratioAtLeast, ratioAtMost, type Row } from './row.js'
import { startSubject } from './subject.js'

export const defaultServers = 256
const quickServers = 8
const sizes = [1, 32, 128] as const
const pausedSizes = [32, 128] as const
const names = [
  ...sizes.map((callers) => `allocate-cluster-${callers}`),
  ...pausedSizes.map((callers) => `allocate-cluster-${callers}-paused`),
]
const pauseMs = 60_000
/** The statuses are not looked at before, as listing them all keeps the API server from writing them. */
const statusLagMs = 1_000
/** How long the statuses of servers may take after that to show their sessions. */
const statusTimeoutMs = 10_000
/** Hollow nodes start 400 pods in 45 s. */
const runningTimeoutMs = 300_000

interface OpenOptions {
  readonly fleetIn: string
  readonly bareIn: string
  readonly servers: number
}

/** Latencies of the calls, and how long all of them took together. */
type Burst = Pick<Load, 'latenciesMs' | 'wallMs'>

export async function open({ fleetIn, bareIn, servers }: OpenOptions) {
  const games = new HollowGames()
  const limits = { connections, requestsPerSecond: 100_000 }
  const fleet = await games.openFleet({
    ...{ namespaces: [fleetIn], systemNamespace: fleetIn, portRange: '22000-25000', ...limits },
  })
  const served = await serve({ fleet, allocation: { port: 0 }, management: { port: 0 } })
  const isUp = standingBy(fleet, servers)
  await fleet.builds.create(hollowBuild(fleetIn, servers))
  await isUp
  const api = newApi()
  const bare = new BareWrites(api, bareIn, await whenSaved(api, fleetIn, servers))
  await whenRunning(api, fleetIn, servers)
  return {
    target(): Target {
      const { hostname, port } = new URL(served.allocationUrl)
      return { host: hostname, port: Number(port) }
    },

    /** Makes `calls` writes with this many callers, each of which writes an object of its own. */
    async write(calls: number, callers: number): Promise<Burst> {
      const own = await bare.create(callers)
      const latenciesMs: number[] = []
      let left = calls
      const since = performance.now()
      const caller = async (name: string) => {
        while (left-- > 0) {
          const startedAt = performance.now()
          await bare.write(name)
          latenciesMs.push(performance.now() - startedAt)
        }
      }
      await Promise.all(own.map(caller))
      return { latenciesMs, wallMs: performance.now() - since }
    },

    /** Throws unless the statuses of the servers show exactly these sessions. */
    async check(sessions: readonly string[]): Promise<void> {
      await api.pause(statusLagMs)
      const until = performance.now() + statusTimeoutMs
      const wanted = sessions.toSorted().join()
      for (;;) {
        const shown = (await listServers(api, fleetIn)).map(sessionOf).filter((session) => session !== undefined)
        if (shown.toSorted().join() === wanted) return
        if (performance.now() > until) throw new Error(`${sessions.length} sessions, but ${shown.length} are shown`)
        await api.pause(100)
      }
    },

    /** Deletes the pods of all servers that have a session. Resolves when all servers have been replaced, and their pods run. */
    async refill(): Promise<void> {
      const taken = (await listServers(api, fleetIn)).filter((server) => sessionOf(server) !== undefined)
      const refilled = standingBy(fleet, taken.length)
      await Promise.all(taken.map(({ metadata: { name } }) => removePod(api, { namespace: fleetIn, name })))
      await refilled
      await whenSaved(api, fleetIn, servers)
      await whenRunning(api, fleetIn, servers)
    },

    async close(): Promise<void> {
      games.stop()
      await served.close()
      await fleet.close()
      api.close()
    },
  }
}

function sessionOf({ status }: KubeObject): string | undefined {
  return Object(status)['sessionID']
}

/** The games send heartbeats from here, so a server may stand by while its node is still busy starting its pod. */
async function whenRunning(api: KubernetesApi, namespace: string, servers: number): Promise<void> {
  const until = performance.now() + runningTimeoutMs
  for (;;) {
    const { items } = await api.list({ what: 'list', method: 'GET', path: pathOf(podType, { namespace }) })
    if (items.length === servers && items.every(({ status }) => Object(status)['phase'] === 'Running')) return
    if (performance.now() > until)
      throw new Error(`not all of ${servers} pods run; see kubectl get pods -n ${namespace}`)
    await api.pause(500)
  }
}

export const allocateCluster: Bench = {
  names,

  run: (quick, wanted) =>
    onCluster(names, async (api) => {
      const servers = quick ? quickServers : wanted
      if (!(await hasCapacity(api, servers))) {
        console.error(`left out ${names.join(', ')}: hollow nodes have no capacity for ${servers} pods`)
        return []
      }
      const [fleetIn, bareIn] = [await makeNamespace(api), await makeNamespace(api)]
      try {
        return await measure(api, { fleetIn, bareIn, servers }, quick)
      } finally {
        await removePods(api, fleetIn)
        await Promise.all([fleetIn, bareIn].map((name) => removeNamespace(api, name)))
      }
    }),
}

async function measure(api: KubernetesApi, options: OpenOptions, quick: boolean): Promise<readonly Row[]> {
  const subject = await startSubject(import.meta.url, open, options)
  const { buildID } = hollowBuild(options.fleetIn, options.servers).spec
  try {
    const rounds = new Rounds(subject, buildID)
    const rows: Row[] = []
    for (const callers of sizes) {
      const calls = Math.min(options.servers, callers === 1 ? 24 : 4 * callers)
      const [allocations, writes]: [Burst[], Burst[]] = [[], []]
      // The first round is a warm-up.
      for (let round = 0; round < (quick ? 1 : 4); round++) {
        const allocated = await rounds.allocate(calls, callers)
        await rounds.refill()
        const written = await subject.write(calls, callers)
        if (round === 0 && !quick) continue
        allocations.push(allocated)
        writes.push(written)
      }
      rows.push(rowOf(callers, allocations, writes))
    }
    for (const callers of pausedSizes) {
      const calls = Math.min(Math.floor(options.servers / 2), 4 * callers)
      const [paused, warm]: [Burst[], Burst[]] = [[], []]
      for (let round = 0; round < (quick ? 1 : 3); round++) {
        await api.pause(quick ? 0 : pauseMs)
        paused.push(await rounds.allocate(calls, callers))
        warm.push(await rounds.allocate(calls, callers))
        await rounds.refill()
      }
      rows.push(pausedRowOf(callers, paused, warm))
    }
    await subject.close()
    return rows
  } finally {
    await subject.stop()
  }
}

interface Measured {
  target(): Promise<Target>
  check(sessions: readonly string[]): Promise<void>
  refill(): Promise<void>
}

class Rounds {
  readonly #subject: Measured
  readonly #buildID: string
  /** The sessions of all servers. */
  #sessions: readonly string[] = []

  constructor(subject: Measured, buildID: string) {
    this.#subject = subject
    this.#buildID = buildID
  }

  /** Replaces the servers that have a session. */
  async refill(): Promise<void> {
    await this.#subject.refill()
    this.#sessions = []
  }

  /** Allocates, and checks that each session has a server of its own, whose status shows it. */
  async allocate(calls: number, callers: number): Promise<Burst> {
    const sessions = Array.from({ length: calls }, () => randomUUID())
    const requests = sessions.map((sessionID) =>
      post('/api/v1/allocate', { buildID: this.#buildID, sessionID, initialPlayers: ['amie'] }),
    )
    // The server closes connections that are idle for long, so each round opens its own.
    const connections = await openConnections(await this.#subject.target(), callers)
    const load = await loadThrough(connections, requests)
    connections.forEach((socket) => socket.end())
    const { bodies, errors, firstError = '', latenciesMs, wallMs } = load
    const servers = new Set(bodies.map((body): string => JSON.parse(body).details.server.name))
    if (errors > 0 || servers.size !== calls) {
      throw new Error(`${calls} sessions got ${servers.size} servers and ${errors} errors: ${firstError}`)
    }
    this.#sessions = [...this.#sessions, ...sessions]
    await this.#subject.check(this.#sessions)
    return { latenciesMs, wallMs }
  }
}

function rowOf(callers: number, allocations: readonly Burst[], writes: readonly Burst[]): Row {
  const name = `allocate-cluster-${callers}`
  const ours = latencies(allocations)
  if (callers === 1) {
    const baseline = median(writes.flatMap(({ latenciesMs }) => latenciesMs))
    const note = `one caller, ${ours}; baseline: a conditional status write`
    return ratioAtMost(2.5, { name, value: p50(allocations), unit: 'ms/call', baseline, note })
  }
  const note = `${callers} callers, ${ours}; baseline: as many concurrent writes`
  return ratioAtLeast(1, { name, value: rate(allocations), unit: 'calls/s', baseline: rate(writes), note })
}

function pausedRowOf(callers: number, paused: readonly Burst[], warm: readonly Burst[]): Row {
  const note = `${callers} callers after a pause of a minute, ${latencies(paused)}; baseline: without, in turns`
  const name = `allocate-cluster-${callers}-paused`
  return ratioAtLeast(0.7, { name, value: rate(paused), unit: 'calls/s', baseline: rate(warm), note })
}

function p50(bursts: readonly Burst[]): number {
  return median(bursts.flatMap(({ latenciesMs }) => latenciesMs))
}

/** The median of the rounds. */
function rate(bursts: readonly Burst[]): number {
  return median(bursts.map(({ latenciesMs, wallMs }) => (latenciesMs.length * 1_000) / wallMs))
}

function latencies(bursts: readonly Burst[]): string {
  const all = bursts.flatMap(({ latenciesMs }) => latenciesMs).toSorted((a, b) => a - b)
  const at = (quantile: number) => (all[Math.floor(all.length * quantile)] ?? Number.NaN).toFixed(1)
  return `p50 ${at(0.5)} ms, p99 ${at(0.99)} ms`
}
