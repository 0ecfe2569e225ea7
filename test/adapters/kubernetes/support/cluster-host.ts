/** A host on the API server in memory, with the real collection of servers. Its calls fail as the Kubernetes client reports them. */
import type { ApiCall, ObjectApi } from '../../../../adapters/kubernetes/client/api.js'
import type { KubeObject } from '../../../../adapters/kubernetes/client/kube-objects.js'
import { RateLimiter } from '../../../../adapters/kubernetes/client/rate-limiter.js'
import { JournalObject } from '../../../../adapters/kubernetes/store/journal/journal.js'
import { ServerCollection } from '../../../../adapters/kubernetes/store/server-collection.js'
import { FleetError } from '../../../../src/contracts/errors.js'
import { silentLogger } from '../../../../src/contracts/logger.js'
import type { Versioned } from '../../../../src/contracts/store.js'
import type { Server } from '../../../../src/rules/model/resources.js'
import { minimalServer } from '../../../../src/testing/records.js'
import { failed, home, type JournalCluster, journalKey, resources } from './journal-cluster.js'

/**
 * An HTTP status; `lost`: it takes effect, and the answer does not arrive; `unreached`: it does not arrive; `late`: it takes effect when
 * the caller has given up; `killed`: the host ends before it is sent; `killed after`: once it has taken effect.
 */
export type Fault = number | 'lost' | 'unreached' | 'late' | 'killed' | 'killed after'

/** How long a caller waits for an answer that does not arrive, in ms. */
const timeoutMs = 2_000
const encryption = {
  encrypt: (token: string) => token,
  decrypt: (token: string) => ({ token }),
  isGenuine: () => true,
}

export interface HostOptions {
  /** Default: undefined, so it does not lead. */
  readonly term?: number
  readonly minGroup?: number
  /** How many calls can run at a time. Default: no limit, while the journal counts on 16. */
  readonly connections?: number
}

export class ClusterHost implements ObjectApi {
  readonly closed = false
  readonly connections: number
  readonly warnings: string[] = []
  readonly servers: ServerCollection
  term: number | undefined
  isKilled = false
  #awakeAt = 0
  /** How long a call takes, and its answer, in ms. */
  latencyMs = 1
  answerMs = 1
  /** When a late call takes effect after its caller has given up, in ms. */
  lateMs = 3_000
  /** How long a list takes after its first page, in ms. */
  listMs = 0
  /** If set, this many calls run at a time, and others wait. */
  readonly limiter: RateLimiter | undefined
  /** Called before each call is sent. */
  fault: (call: ApiCall) => Fault | undefined = () => undefined

  constructor(
    readonly cluster: JournalCluster,
    { term, minGroup = 1, connections }: HostOptions = {},
  ) {
    const { clock } = cluster
    this.term = term
    this.connections = connections ?? 16
    this.limiter =
      connections === undefined ? undefined : new RateLimiter(clock, { perSecond: 100_000, maxConcurrent: connections })
    const journal = {
      ...{
        clock,
        logger: silentLogger,
        term: () => (this.isKilled ? undefined : this.term),
        key: () => journalKey,
        minGroup,
      },
      warn: (message: string) => void this.warnings.push(message),
      storage: new JournalObject({ api: this, resource: resources.journals, ...home }),
    }
    const deps = { api: this, namespaces: ['games'], throwIfClosed: () => {} }
    const options = { logger: silentLogger, editRefused: () => {}, journal }
    this.servers = new ServerCollection(deps, resources, encryption, { ownerByUid: () => undefined }, options)
  }

  /** Calls that have been sent take effect. Nothing else happens any more. */
  kill(): void {
    this.isKilled = true
    this.servers.close()
  }

  /** Stores a server that stands by. Resolves with its revision. */
  async add(name: string): Promise<Versioned<Server>> {
    const record = { ...serverRecord(name), state: 'StandingBy' as const }
    return { record, revision: await this.servers.create(record) }
  }

  /** What a watch does with an object. */
  see(object: KubeObject): Versioned<Server> | undefined {
    return this.servers.isUnseen(object) ? this.servers.versioned(object) : undefined
  }

  get priorityPauseMs(): number {
    return this.limiter?.priorityPauseMs ?? 1_000
  }

  object(call: ApiCall): Promise<KubeObject> {
    return this.#call(call, () => this.cluster.answer(call))
  }

  request(call: ApiCall): Promise<unknown> {
    return this.object(call)
  }

  pause(ms: number): Promise<void> {
    return this.#sleep(ms)
  }

  /** Calls that have been sent take effect, and nothing else happens until then. */
  suspend(ms: number): void {
    this.#awakeAt = this.cluster.clock.elapsed() + ms
  }

  async list(call: ApiCall) {
    const { cluster } = this
    const found = await this.#call(call, () => ({ items: cluster.list(), revision: cluster.revision }))
    await this.#sleep(this.listMs)
    return structuredClone(found)
  }

  async #call<T>(call: ApiCall, effect: () => T): Promise<T> {
    const fault = this.fault(call)
    if (fault === 'killed') this.kill()
    if (this.isKilled) return new Promise(() => {})
    if (call.method !== 'GET' && this.term === undefined) throw new FleetError('not-leader', `cannot ${call.what}`)
    await this.#turn(call)
    try {
      return await this.#send(call, effect, fault)
    } finally {
      this.limiter?.done(call)
    }
  }

  async #turn(call: ApiCall): Promise<void> {
    const { limiter } = this
    if (limiter && !limiter.tryStart(call)) await new Promise<void>((resolve) => limiter.enqueue(call, resolve))
  }

  async #send<T>(call: ApiCall, effect: () => T, fault: Fault | undefined): Promise<T> {
    const { answerMs } = this
    await this.#sleep(this.latencyMs)
    if (typeof fault === 'number') throw failed(fault, call)
    if (fault === 'late') this.cluster.clock.after(timeoutMs + this.lateMs, () => void attempt(effect))
    const outcome = fault === 'late' || fault === 'unreached' ? undefined : attempt(effect)
    if (fault === 'killed after') this.kill()
    if (fault === 'lost' || !outcome) {
      await this.#sleep(timeoutMs)
      throw new FleetError('unavailable', `failed to ${call.what}: no answer`)
    }
    await this.#sleep(answerMs)
    return structuredClone(outcome())
  }

  /** Never ends once the host is killed, and not while it is suspended. */
  async #sleep(ms: number): Promise<void> {
    const { clock } = this.cluster
    await new Promise<void>((resolve) => clock.after(ms, resolve))
    const left = this.#awakeAt - clock.elapsed()
    if (this.isKilled) await new Promise(() => {})
    if (left > 0) await this.#sleep(left)
  }
}

export function serverRecord(name: string): Server {
  return minimalServer({ namespace: 'games', name })
}

export function withSession(record: Server, id: string): Server {
  const number = (record.startedSessions ?? 0) + 1
  const session = { id, initialPlayers: [], number, startedAt: 0 }
  return { ...record, state: 'Active', sessions: [session], startedSessions: number }
}

function attempt<T>(effect: () => T): () => T {
  try {
    const value = effect()
    return () => value
  } catch (error) {
    return () => {
      throw error
    }
  }
}
