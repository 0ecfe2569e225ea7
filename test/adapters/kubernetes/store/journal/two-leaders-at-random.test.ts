/** Two hosts that both believe to lead allocate, write and list at random, over a network that loses answers: every answer holds. */
import { expect, it } from 'vitest'
import { seededRandom } from '../../../../../src/testing/virtual-clock.js'
import { ClusterHost, withSession } from '../../support/cluster-host.js'
import { JournalCluster } from '../../support/journal-cluster.js'

const trials = 300
const faults = ['lost', 'late', 'unreached', 500] as const

class Trial {
  readonly cluster: JournalCluster
  readonly #below: (limit: number) => number
  readonly #names: string[] = []
  readonly #answers: { readonly session: string; readonly name: string }[] = []
  #count = 0

  constructor(readonly seed: number) {
    this.cluster = new JournalCluster(seed)
    const random = seededRandom(seed)
    this.#below = (limit) => Math.floor(random() * limit)
  }

  async host(term: number): Promise<ClusterHost> {
    const below = this.#below
    const host = new ClusterHost(this.cluster, { term, minGroup: 1 + below(2) })
    host.latencyMs = 1 + below(30)
    host.answerMs = 1 + below(30)
    await this.cluster.during(host.servers.list())
    if (below(2) > 0) host.fault = () => (below(12) === 0 ? faults[below(faults.length)] : undefined)
    return host
  }

  async work(host: ClusterHost): Promise<void> {
    for (let step = 0; step < 12; step++) {
      await this.#pause(this.#below(120))
      // A call that fails is not answered, and the next one is another.
      await this.#step(host).catch(() => {})
    }
  }

  async #step(host: ClusterHost): Promise<void> {
    const kind = this.#below(8)
    if (kind === 0) await host.servers.list()
    else if (kind <= 2) {
      const name = `server-${++this.#count}`
      await host.add(name)
      this.#names.push(name)
    } else await this.#write(host, this.#names[this.#below(this.#names.length)])
  }

  async #write(host: ClusterHost, name: string | undefined): Promise<void> {
    if (name === undefined) return
    for (const each of this.#names) if (this.#below(2) > 0) host.see(this.cluster.server(each))
    const found = await host.servers.get({ namespace: 'games', name })
    if (!found) throw new Error(`${name} is gone`)
    const { record, revision } = found
    if (record.sessions[0])
      return void (await host.servers.update({ ...record, node: `node-${++this.#count}` }, revision))
    await this.#pause(this.#below(3) * 60)
    const session = `session-${++this.#count}`
    await host.servers.update(withSession(record, session), revision)
    this.#answers.push({ session, name })
  }

  /** What a new leader finds wrong. */
  async faults(): Promise<readonly string[]> {
    const next = new ClusterHost(this.cluster, { term: 3 })
    const listed = await this.cluster.during(next.servers.list())
    const shown = new Map(listed.map(({ record }) => [record.name, record.sessions[0]?.id]))
    return this.#answers
      .filter(({ session, name }) => shown.get(name) !== session)
      .map(({ session, name }) => `seed ${this.seed}: ${session} was given ${name}, which has ${shown.get(name)}`)
  }

  get answered(): number {
    return this.#answers.length
  }

  #pause(ms: number): Promise<void> {
    return new Promise((resolve) => this.cluster.clock.after(ms, resolve))
  }
}

it('two hosts that both believe to lead give no server to two sessions', { timeout: 300_000 }, async () => {
  const found: string[] = []
  let answered = 0
  for (let seed = 1; seed <= trials; seed++) {
    const trial = new Trial(seed)
    const { cluster } = trial
    const hosts = [await trial.host(1), await trial.host(2)]
    await cluster.during(Promise.all([...hosts, ...hosts, ...hosts].map((host) => trial.work(host))))
    await cluster.clock.advance(20_000)
    for (const host of hosts) host.kill()
    found.push(...(await trial.faults()))
    answered += trial.answered
  }
  expect(found).toEqual([])
  expect(answered).toBeGreaterThan(trials)
})
