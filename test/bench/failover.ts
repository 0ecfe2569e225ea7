/**
 * Benchmarks fail-over: three hosts on one cluster, the leader of which is killed, and the next of which shuts down, while callers
 * allocate 20 times a second and try every host until one answers. As installed by the chart, hosts forward calls to the leader, and hold
 * them while there is none. With a pod on a hollow node for each server. Skipped if there is no cluster or the hollow nodes have too
 * little capacity.
 */
import { randomUUID } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import type { KubernetesApi } from '../../adapters/kubernetes/client/api.js'
import { pathOf, pods } from '../../adapters/kubernetes/client/kube-objects.js'
import { makeNamespace, removeNamespace } from '../adapters/kubernetes/support/cluster.js'
import { type ForwardingHostOptions, open } from '../adapters/kubernetes/support/forwarding-host.js'
import { hollowBuild, removePods } from '../adapters/kubernetes/support/scale-fleet.js'
import { listServers, whenSaved } from './bare-writes.js'
import { hasCapacity } from './kubernetes-start.js'
import { onCluster } from './kubernetes.js'
import { atMost, type Bench, type Row } from './row.js'
import { startSubject } from './subject.js'

const names = ['failover-killed', 'failover-restarted', 'failover-refused', 'failover-lost', 'failover-doubled']
const intervalMs = 50
/** How long callers allocate before and after each change of leader. */
const steadyMs = 1_500
const giveUpMs = 30_000
const hostFile = new URL('../adapters/kubernetes/support/forwarding-host.ts', import.meta.url).href

type Host = Awaited<ReturnType<typeof startHost>>

async function startHost(options: ForwardingHostOptions) {
  const subject = await startSubject(hostFile, open, options)
  const { allocate } = await subject.urls()
  return { subject, url: allocate }
}

export const failover: Bench = {
  names,

  run: (quick) =>
    onCluster(names, async (api) => {
      const servers = quick ? 100 : 200
      if (!(await hasCapacity(api, servers))) {
        console.error(`left out ${names.join(', ')}: hollow nodes have no capacity for ${servers} pods`)
        return []
      }
      const namespace = await makeNamespace(api)
      const hosts: Host[] = []
      try {
        await fill(api, { namespace, servers, leaseMs: 15_000 })
        for (let count = 0; count < 3; count++) hosts.push(await startHost({ namespace, servers, leaseMs: 2_000 }))
        return await measure(api, hosts, { namespace, servers }, quick ? 100 : steadyMs)
      } finally {
        await Promise.all(hosts.map(({ subject }) => subject.stop()))
        await removePods(api, namespace)
        await removeNamespace(api, namespace)
      }
    }),
}

async function measure(
  api: KubernetesApi,
  hosts: readonly Host[],
  { namespace, servers }: Omit<ForwardingHostOptions, 'leaseMs'>,
  steady: number,
): Promise<readonly Row[]> {
  const running = new Set(hosts)
  const callers = new Callers(
    hosts.map(({ url }) => url),
    hollowBuild(namespace, servers).spec.buildID,
  )
  const killedMs = await gapDuring(callers, steady, async () => {
    const leader = await leaderOf(running)
    running.delete(leader)
    await leader.subject.stop()
  })
  const { refused } = callers
  const restartedMs = await gapDuring(callers, steady, async () => {
    const leader = await leaderOf(running)
    running.delete(leader)
    await leader.subject.handOver()
  })
  const shown = (await listServers(api, namespace)).map(({ metadata, status }) => ({
    server: metadata.name,
    session: String(Object(status)['sessionID'] ?? ''),
  }))
  const lost = callers.sessions.filter((session) => {
    const server = callers.answers.get(session)
    return server === undefined || !shown.some((each) => each.session === session && each.server === server)
  })
  const taken = shown.filter(({ session }) => session !== '')
  const doubled = taken.length - new Set(taken.map(({ session }) => session)).size
  const calls = callers.sessions.length
  return [
    atMost(3, {
      name: 'failover-killed',
      value: killedMs / 1_000,
      unit: 's',
      note: 'kill -9 of the leader: longest gap between allocations',
    }),
    atMost(0.5, {
      name: 'failover-restarted',
      value: restartedMs / 1_000,
      unit: 's',
      note: 'the leader shuts down: longest gap',
    }),
    atMost(0, {
      name: 'failover-refused',
      value: refused,
      unit: 'calls',
      note: `no host answered at first after kill -9; ${calls} calls in all`,
    }),
    atMost(0, {
      name: 'failover-lost',
      value: lost.length,
      unit: 'sessions',
      note: 'without the server that was answered',
    }),
    atMost(0, { name: 'failover-doubled', value: doubled, unit: 'sessions', note: 'with two servers' }),
  ]
}

/** Starts the servers on a host with a long lease: on a busy machine, a leader with a shorter one may lose it meanwhile. */
async function fill(api: KubernetesApi, options: ForwardingHostOptions): Promise<void> {
  const { subject } = await startHost(options)
  try {
    await subject.fill()
    await whenSaved(api, options.namespace, options.servers)
    await whenRunning(api, options.namespace, options.servers)
    await subject.close()
  } finally {
    await subject.stop()
  }
}

/** A new leader looks for what pods that have not started are waiting for, which a fleet at rest does not have. */
async function whenRunning(api: KubernetesApi, namespace: string, count: number): Promise<void> {
  const call = { what: 'list pods', method: 'GET', path: pathOf(pods, { namespace }) } as const
  for (;;) {
    const { items } = await api.list(call)
    if (items.filter(({ status }) => Object(status)['phase'] === 'Running').length >= count) return
    await pause(200)
  }
}

async function leaderOf(hosts: ReadonlySet<Host>): Promise<Host> {
  for (;;) {
    for (const host of hosts) if (await host.subject.leads()) return host
    await pause(50)
  }
}

/** Allocates while `change` happens. Resolves with the longest time between two answers. */
async function gapDuring(callers: Callers, steady: number, change: () => Promise<void>): Promise<number> {
  const since = callers.answeredAt.length
  const stop = callers.start()
  await pause(steady)
  const changed = change()
  await pause(steady)
  // Continues until the next leader has answered.
  await changed
  await pause(steady)
  await stop()
  const times = callers.answeredAt.slice(since).toSorted((a, b) => a - b)
  return Math.max(...times.slice(1).map((time, index) => time - (times[index] ?? time)))
}

class Callers {
  readonly sessions: string[] = []
  /** The server of each session. */
  readonly answers = new Map<string, string>()
  readonly answeredAt: number[] = []
  /** Number of sessions that no host answered at first. */
  refused = 0
  readonly #urls: readonly string[]
  readonly #buildID: string
  #last = 0

  constructor(urls: readonly string[], buildID: string) {
    this.#urls = urls
    this.#buildID = buildID
  }

  /** Returns a function that stops new calls, and resolves when all have an answer or gave up. */
  start(): () => Promise<void> {
    const calls: Promise<void>[] = []
    const timer = setInterval(() => calls.push(this.#allocate()), intervalMs)
    return async () => {
      clearInterval(timer)
      await Promise.all(calls)
    }
  }

  async #allocate(): Promise<void> {
    const sessionID = randomUUID()
    this.sessions.push(sessionID)
    const until = performance.now() + giveUpMs
    for (let attempt = 1; performance.now() < until; attempt++) {
      const host = (this.#last + attempt - 1) % this.#urls.length
      const server = await this.#ask(this.#urls[host] ?? '', sessionID)
      if (server !== undefined) {
        this.#last = host
        this.answers.set(sessionID, server)
        this.answeredAt.push(performance.now())
        return
      }
      if (attempt === this.#urls.length) this.refused++
      if (attempt % this.#urls.length === 0) await pause(20)
    }
  }

  async #ask(url: string, sessionID: string): Promise<string | undefined> {
    const body = JSON.stringify({ buildID: this.#buildID, sessionID })
    const headers = { 'content-type': 'application/json' }
    try {
      const response = await fetch(url, { method: 'POST', headers, body, signal: AbortSignal.timeout(giveUpMs) })
      const answer: unknown = await response.json()
      return response.ok ? String(Object(Object(Object(answer)['details'])['server'])['name']) : undefined
    } catch {
      return undefined // The host was killed.
    }
  }
}
