/**
 * Three hosts lead in turns, and sometimes two at once, over a network with faults. Like the engine, a leader allocates, edits and ends servers,
 * and after a failed write reads the server back: if its session is there, the allocation has succeeded. Watch events are late, and somebody
 * edits labels. Each session that a host answers while it believes to lead keeps its server, no call hangs, and the journal becomes empty.
 */
import { expect, it } from 'vitest'
import { FleetError } from '../../../../../src/contracts/errors.js'
import type { Versioned } from '../../../../../src/contracts/store.js'
import type { Server } from '../../../../../src/rules/model/resources.js'
import { seededRandom } from '../../../../../src/testing/virtual-clock.js'
import { ClusterHost, withSession } from '../../support/cluster-host.js'
import { JournalCluster } from '../../support/journal-cluster.js'

const trials = 200
const rounds = 7
const workersPerTerm = 4
const maxAttempts = 5
const faults = ['lost', 'late', 'unreached', 500, 409, 429] as const

class Trial {
  readonly cluster: JournalCluster
  readonly below: (limit: number) => number
  readonly problems: string[] = []
  /** The session that has been answered for each server. */
  readonly answers = new Map<string, string>()
  #terms = 0
  #working = 0
  #count = 0

  constructor(seed: number) {
    this.cluster = new JournalCluster(seed)
    const random = seededRandom(seed)
    this.below = (limit) => Math.floor(random() * limit)
  }

  async run(): Promise<void> {
    const hosts = [this.#host(), this.#host(), this.#host()] as const
    for (let round = 0; round < rounds; round++) await this.#round(hosts[this.below(3)] ?? hosts[0])
    for (const host of hosts) {
      host.term = undefined
      host.fault = () => undefined
    }
    await this.cluster.clock.advance(30_000)
    if (this.#working > 0) this.problems.push(`${this.#working} terms hang`)
    await this.#lastTerm()
  }

  answer(name: string, session: string): void {
    const earlier = this.answers.get(name)
    if (earlier !== undefined) this.problems.push(`${name} was given to ${earlier}, and then to ${session}`)
    this.answers.set(name, session)
  }

  unique(prefix: string): string {
    return `${prefix}-${++this.#count}`
  }

  pause(ms: number): Promise<void> {
    return new Promise((resolve) => this.cluster.clock.after(ms, resolve))
  }

  #host(): ClusterHost {
    const { below } = this
    const limit = below(2) > 0 && { connections: 2 ** below(5) }
    const host = new ClusterHost(this.cluster, { minGroup: 1 + below(2), ...limit })
    host.latencyMs = 1 + below(30)
    host.answerMs = 1 + below(30)
    host.lateMs = below(4_000)
    if (below(2) > 0) host.fault = () => (below(12) === 0 ? faults[below(faults.length)] : undefined)
    return host
  }

  async #round(host: ClusterHost): Promise<void> {
    const { below, cluster } = this
    this.#working++
    void new Term(this, host, ++this.#terms).work().then(
      () => this.#working--,
      (error: unknown) => this.problems.push(`a term failed: ${String(error)}`),
    )
    await cluster.during(this.pause(below(3) === 0 ? below(200) : below(1_700)))
    // Two lead at once if it goes on.
    if (below(3) === 0) return
    host.term = undefined
    if (below(3) === 0) await cluster.during(this.pause(below(3_000)))
  }

  /** The next leader carries out what is in the journal. */
  async #lastTerm(): Promise<void> {
    const { cluster } = this
    await cluster.during(new ClusterHost(cluster, { term: ++this.#terms }).servers.list())
    await cluster.clock.advance(3_000)
    for (const [name, session] of this.answers) {
      const shown = cluster.shown(name)
      if (shown !== session) this.problems.push(`${session} was given ${name}, which has ${String(shown)}`)
    }
    const left = cluster.journaled()
    if (left.length > 0) this.problems.push(`the journal still has ${left.join(', ')}`)
  }
}

/** What the engine of a host does from when the host begins to lead until it is deposed, or leads anew. */
class Term {
  /** The servers as the engine knows them. */
  readonly #known = new Map<string, Versioned<Server>>()
  /** Servers that are being written. */
  readonly #busy = new Set<string>()

  constructor(
    readonly trial: Trial,
    readonly host: ClusterHost,
    readonly term: number,
  ) {
    host.term = term
  }

  async work(): Promise<void> {
    let listed: readonly Versioned<Server>[] | undefined
    while (!this.#isOver && !listed) listed = await unlessFailed(this.host.servers.list())
    listed?.forEach((found) => this.#learn(found))
    await Promise.all(Array.from({ length: workersPerTerm }, () => this.#steps()))
  }

  get #isOver(): boolean {
    return this.host.term !== this.term
  }

  async #steps(): Promise<void> {
    while (!this.#isOver) {
      await this.trial.pause(this.trial.below(80))
      await unlessFailed(this.#step())
    }
  }

  async #step(): Promise<void> {
    const { below, cluster } = this.trial
    const kind = below(10)
    if (kind <= 1) return this.#learn(await this.host.add(this.trial.unique('server')))
    // A watch reports servers of all hosts.
    const names = kind <= 4 ? cluster.list().map(({ metadata }) => metadata.name) : [...this.#known.keys()]
    const idle = names.filter((name) => !this.#busy.has(name))
    const name = idle[below(idle.length)]
    if (name === undefined) return
    if (kind === 2) cluster.label(name, { edited: this.trial.unique('by-hand') })
    else if (kind <= 4) this.#learn(this.host.see(cluster.server(name)))
    else await this.#write(name).finally(() => this.#busy.delete(name))
  }

  #learn(found: Versioned<Server> | undefined): void {
    if (found) this.#known.set(found.record.name, found)
  }

  async #write(name: string): Promise<void> {
    this.#busy.add(name)
    for (let left = maxAttempts; left > 0 && !this.#isOver; left--) if (await this.#attempt(name)) return
  }

  /** Resolves with whether nothing is left to do. */
  async #attempt(name: string): Promise<boolean> {
    const known = this.#known.get(name)
    if (!known) return true
    const next = this.#changed(known.record)
    const revision = await unlessFailed(this.host.servers.update(next, known.revision))
    if (this.#isOver) return true
    const found = revision === undefined ? await this.host.servers.get(next) : { record: next, revision }
    if (this.#isOver) return true
    this.#learn(found)
    const given = known.record.sessions[0] ? undefined : next.sessions[0]?.id
    if (given === undefined || found?.record.sessions[0]?.id !== given) return revision !== undefined
    this.trial.answer(name, given)
    return true
  }

  #changed(record: Server): Server {
    if (!record.sessions[0]) return withSession(record, this.trial.unique('session'))
    const edited = { ...record, node: this.trial.unique('node') }
    return this.trial.below(5) === 0 ? { ...edited, state: 'Terminating' } : edited
  }
}

/** Undefined if it fails. */
async function unlessFailed<T>(call: Promise<T>): Promise<T | undefined> {
  return call.catch((error: unknown) => {
    if (FleetError.is(error)) return undefined
    throw error
  })
}

it('hosts that lead in turns, or at once, keep every session that they answer', { timeout: 300_000 }, async () => {
  const found: string[] = []
  let answered = 0
  for (let seed = 1; seed <= trials; seed++) {
    const trial = new Trial(seed)
    await trial.run().catch((error: unknown) => trial.problems.push(String(error)))
    answered += trial.answers.size
    found.push(...trial.problems.map((problem) => `seed ${seed}: ${problem}`))
  }
  expect(found).toEqual([])
  expect(answered).toBeGreaterThan(20 * trials)
})
