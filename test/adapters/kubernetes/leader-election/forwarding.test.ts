/** Any host of a fleet answers: callers reach the leader through each of them, while hosts are restarted and killed. */
import { randomUUID } from 'node:crypto'
import { Agent, request } from 'node:http'
import { expect, it, vi } from 'vitest'
import { startSubject } from '../../../bench/subject.js'
import { kubectl } from '../support/cluster.js'
import { describeOnCluster } from '../support/describe-on-cluster.js'
import { type ForwardingHostOptions, open } from '../support/forwarding-host.js'
import { ownNamespace } from '../support/own-namespace.js'
import { freeHollowPods, hollowBuild, removePods } from '../support/scale-fleet.js'

const file = new URL('../support/forwarding-host.ts', import.meta.url).href
const servers = 100
const calls = 2_000
const callers = 10
const waitOptions = { timeout: 120_000, interval: 200 }

async function startHost(options: ForwardingHostOptions) {
  const subject = await startSubject(file, open, options)
  return { subject, ...(await subject.urls()), inFlight: 0, agent: new Agent({ keepAlive: true }) }
}
type Host = Awaited<ReturnType<typeof startHost>>

describeOnCluster('any host of a fleet', () => {
  const space = ownNamespace(removePods)

  it('answers 2,000 allocations while hosts are restarted and killed', { timeout: 600_000 }, async () => {
    await vi.waitFor(async () => expect(await freeHollowPods()).toBeGreaterThanOrEqual(servers), waitOptions)
    const namespace = space()
    const options = { namespace, servers, leaseMs: 2_000 }
    const running = new Set<Host>()
    const all: Host[] = []
    const start = async () => {
      const host = await startHost(options)
      all.push(host)
      running.add(host)
    }
    try {
      await start()
      await [...running][0]?.subject.fill()
      await Promise.all([start(), start()])
      await vi.waitFor(async () => {
        const ready = await Promise.all([...running].map(({ subject }) => subject.isReady()))
        expect(ready).toEqual([true, true, true])
      }, waitOptions)

      const stream = new Stream(running, namespace)
      const leader = async () => {
        for (;;) for (const host of running) if (await host.subject.leads()) return host
      }
      const follower = async () => {
        for (;;) for (const host of running) if (!(await host.subject.leads())) return host
      }
      const restart = async (host: Host) => {
        // Its callers go elsewhere, as when a Service has left it out.
        const gone = host.subject.handOver()
        running.delete(host)
        await vi.waitFor(() => expect(host.inFlight).toBe(0), waitOptions)
        await gone
        await host.subject.close()
        await start()
      }
      const answers = stream.run()
      await stream.reached(calls / 5)
      await restart(await leader())
      await stream.reached((2 * calls) / 5)
      const killed = await leader()
      running.delete(killed)
      await killed.subject.stop()
      await stream.reached((3 * calls) / 5)
      await start()
      await restart(await follower())
      await answers

      expect(stream.refused).toEqual([])
      expect(stream.answered).toBe(calls)
      // Each session was asked for many times, of all hosts, and has always had the same server.
      expect(stream.servers.size).toBe(servers)
      expect([...stream.servers.values()].every((names) => names.size === 1)).toBe(true)
      const shown = await kubectl('get', 'gs', '-n', namespace, '-o', 'jsonpath={.items[*].status.sessionID}')
      expect(shown.split(' ').toSorted()).toEqual([...stream.servers.keys()].toSorted())
    } finally {
      await Promise.all(all.map(({ subject }) => subject.stop()))
    }
  })
})

/** Callers that allocate one session after another, again and again, at one host after another. */
class Stream {
  /** Answers other than 200. */
  readonly refused: string[] = []
  /** The names of the servers that each session was answered with. */
  readonly servers = new Map<string, Set<string>>()
  answered = 0
  readonly #hosts: ReadonlySet<Host>
  readonly #buildID: string
  readonly #sessions = Array.from({ length: servers }, () => randomUUID())
  #begun = 0

  constructor(hosts: ReadonlySet<Host>, namespace: string) {
    this.#hosts = hosts
    this.#buildID = hollowBuild(namespace, servers).spec.buildID
  }

  async run(): Promise<void> {
    await Promise.all(Array.from({ length: callers }, () => this.#caller()))
  }

  reached(count: number): Promise<void> {
    return vi.waitFor(() => expect(this.answered).toBeGreaterThanOrEqual(count), waitOptions)
  }

  async #caller(): Promise<void> {
    while (this.#begun < calls) {
      const turn = this.#begun++
      const sessionID = this.#sessions[turn % servers] ?? ''
      // Only the connection to a host that was killed may break. Its callers ask another.
      for (let attempt = 0; ; attempt++) {
        const hosts = [...this.#hosts]
        const host = hosts[(turn + attempt) % hosts.length]
        const answer = host && (await this.#ask(host, sessionID))
        if (answer !== undefined) {
          this.answered++
          break
        }
        if (host && this.#hosts.has(host)) this.refused.push('the connection to a running host broke')
      }
    }
  }

  async #ask(host: Host, sessionID: string): Promise<true | undefined> {
    host.inFlight++
    try {
      const { status, text } = await post(host, { buildID: this.#buildID, sessionID })
      if (status !== 200) this.refused.push(`${status} ${text}`)
      else {
        const names = this.servers.get(sessionID) ?? new Set()
        this.servers.set(sessionID, names.add(JSON.parse(text).details.server.name))
      }
      return true
    } catch {
      return undefined
    } finally {
      host.inFlight--
    }
  }
}

/** Over a connection that stays open. */
function post(host: Host, body: object): Promise<{ readonly status: number; readonly text: string }> {
  return new Promise((resolve, reject) => {
    const sent = request(`${host.allocate}?wait=50`, { method: 'POST', agent: host.agent }, (response) => {
      let text = ''
      response.on('data', (chunk: Buffer) => (text += chunk.toString()))
      response.on('error', reject)
      response.on('end', () => resolve({ status: response.statusCode ?? 0, text }))
    })
    sent.on('error', reject)
    sent.end(JSON.stringify(body))
  })
}
