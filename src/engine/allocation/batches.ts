/** Allocates several sessions in one call: as many as there are servers for, or, if the batch is atomic, all or none. */
import { FleetError, messageOf } from '../../contracts/errors.js'
import type { Allocation } from '../../contracts/sessions.js'
import type { AllocationRequest } from '../../rules/model/resources.js'
import { sessionByKey } from '../../rules/lifecycle/server-sessions.js'
import { sessionKey } from '../../rules/model/names.js'
import type { EngineContext } from '../context.js'
import type { BuildEntry } from '../state/entries.js'
import type { Allocator } from './allocator.js'
import { BatchGate } from './batch-gate.js'
import { selectedBuilds } from './selected-builds.js'

export interface BatchOptions {
  readonly atomic: boolean
  readonly waitMs: number
  readonly signal?: AbortSignal | undefined
}

export type Outcome = PromiseSettledResult<Allocation>

export interface BatchDependencies {
  readonly allocator: Pick<Allocator, 'allocate'>
  /** Ends a session for which nobody has been answered. Resolves when that is durable. */
  readonly abandon: (sessionID: string) => Promise<void>
}

export class Batches {
  readonly #ctx: Pick<EngineContext, 'clock' | 'inventory'>
  readonly #deps: BatchDependencies
  /** Atomic batches that hold servers while they wait for others, and the builds that they name. */
  readonly #waiting = new Set<{ readonly builds: ReadonlySet<BuildEntry>; readonly ended: Promise<unknown> }>()

  constructor(ctx: Pick<EngineContext, 'clock' | 'inventory'>, deps: BatchDependencies) {
    this.#ctx = ctx
    this.#deps = deps
  }

  /**
   * Resolves with the outcome of each request, in their order. The servers that are ready are reserved, and their writes begun, in the tick
   * of the call, so that a store can make them one group. An atomic batch rejects unless every session has a server.
   */
  async allocate(requests: readonly AllocationRequest[], options: BatchOptions): Promise<readonly Outcome[]> {
    const { atomic, waitMs, signal } = options
    if (!atomic)
      return Promise.allSettled(requests.map((request) => this.#deps.allocator.allocate(request, { waitMs, signal })))
    return waitMs > 0 ? this.#inTurn(requests, options) : this.#allocateAll(requests, options)
  }

  /**
   * Two batches that each held a part of the servers of a build and waited for the rest would keep each other waiting. So a batch that may
   * wait begins when those before it that name one of its builds have ended.
   */
  async #inTurn(requests: readonly AllocationRequest[], options: BatchOptions): Promise<readonly Outcome[]> {
    const { clock } = this.#ctx
    const since = clock.elapsed()
    const builds = new Set(requests.flatMap((request) => this.#buildsOf(request)))
    const earlier = [...this.#waiting]
      .filter((other) => [...builds].some((build) => other.builds.has(build)))
      .map(({ ended }) => ended)
    let end = () => {}
    const place = { builds, ended: new Promise<void>((resolve) => (end = resolve)) }
    this.#waiting.add(place)
    try {
      if (earlier.length > 0) await this.#within(options.waitMs, Promise.all(earlier), options.signal)
      const waitMs = Math.max(0, options.waitMs - (clock.elapsed() - since))
      return await this.#allocateAll(requests, { ...options, waitMs })
    } finally {
      this.#waiting.delete(place)
      end()
    }
  }

  /** Waits for a promise that never rejects, at most this long, and not after the signal. */
  #within(ms: number, promise: Promise<unknown>, signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve) => {
      const cancel = this.#ctx.clock.after(ms, resolve)
      const done = () => {
        cancel()
        signal?.removeEventListener('abort', done)
        resolve()
      }
      signal?.addEventListener('abort', done, { once: true })
      void promise.finally(done)
    })
  }

  async #allocateAll(requests: readonly AllocationRequest[], options: BatchOptions): Promise<readonly Outcome[]> {
    const { waitMs, signal } = options
    const known = new Set(requests.filter((request) => this.#hasServer(request)).map(({ sessionID }) => sessionID))
    const gate = new BatchGate(requests.map(({ sessionID }) => sessionKey(sessionID)))
    const outcomes = await Promise.allSettled(
      requests.map(async (request) => {
        try {
          const allocation = await this.#deps.allocator.allocate(request, { waitMs, signal, gate })
          gate.settle(sessionKey(request.sessionID))
          return allocation
        } catch (error) {
          gate.fail(error)
          throw error
        }
      }),
    )
    const failed = outcomes.findIndex(({ status }) => status === 'rejected')
    const outcome = outcomes[failed]
    if (outcome?.status !== 'rejected') return outcomes
    const error: unknown = outcome.reason
    const sessionID = requests[failed]?.sessionID ?? ''
    if (!gate.isOpen) throw batchError(error, sessionID, 'no session of the batch got a server')
    if (isUndecided(error)) {
      throw batchError(error, sessionID, 'others of the batch may have servers; retry with the same sessionIDs')
    }
    const added = requests.filter((request, i) => outcomes[i]?.status === 'fulfilled' && !known.has(request.sessionID))
    await Promise.all(added.map((request) => this.#deps.abandon(request.sessionID)))
    throw batchError(error, sessionID, 'the sessions of the batch that had got servers were ended')
  }

  /** Throws if the server is ending: the batch would be answered with a server that is gone soon. */
  #hasServer({ sessionID }: AllocationRequest): boolean {
    const record = this.#ctx.inventory.serverBySession(sessionID)?.record
    const session = record && sessionByKey(record, sessionKey(sessionID))
    if (session?.ending) {
      const message = `session ${sessionID} of server ${record?.name} is being ended; retry when it is over`
      throw new FleetError('none-standing-by', message)
    }
    if (session && record.state === 'Terminating') {
      const message = `session ${sessionID} has server ${record.name}, which is ending; retry when it is gone`
      throw new FleetError('none-standing-by', message)
    }
    return session !== undefined
  }

  #buildsOf({ buildID, select }: AllocationRequest): readonly BuildEntry[] {
    const { inventory } = this.#ctx
    const build = buildID === undefined ? undefined : inventory.buildByID(buildID)
    return build ? [build] : (select ?? []).flatMap((selector) => selectedBuilds(inventory, selector))
  }
}

/** True if this host cannot know whether the session has a server: the store, or the next leader, does. */
function isUndecided(error: unknown): boolean {
  return (['unavailable', 'not-leader', 'closed'] as const).some((code) => FleetError.is(error, code))
}

function batchError(error: unknown, sessionID: string, others: string): FleetError {
  const code = FleetError.is(error) ? error.code : 'internal'
  const details = FleetError.is(error) ? error.details : undefined
  const message = `session ${sessionID}: ${messageOf(error)}; ${others}`
  return new FleetError(code, message, { cause: error, ...(details && { details }) })
}
