/** Starts the instance of a Pending server: waits until its build is prepared, then calls the backend. */
import type { Instance, InstanceSpec } from '../../contracts/backend.js'
import { FleetError, messageOf } from '../../contracts/errors.js'
import { isOver } from '../../rules/lifecycle/backoff.js'
import { transition } from '../../rules/lifecycle/lifecycle.js'
import { sessionHostId } from '../../rules/model/names.js'
import { withTimeout } from '../../util/with-timeout.js'
import { backoffLimits, type EngineContext } from '../context.js'
import type { LateStarts } from '../instances/late-starts.js'
import type { InstanceWatcher } from '../instances/instance-watcher.js'
import { type Conditions, hasCondition } from '../reporting/conditions.js'
import { setPendingReason } from '../reporting/start-failures.js'
import type { StartFailures } from '../reporting/start-failures.js'
import type { BuildEntry, ServerEntry } from '../state/entries.js'
import { isCurrent, isSaved } from '../state/queries.js'
import type { Preparation } from './preparation.js'

export interface ServerStarterDependencies {
  readonly conditions: Conditions
  readonly startFailures: StartFailures
  readonly watcher: Pick<InstanceWatcher, 'observe'>
  readonly preparation: Preparation
  readonly lateStarts: Pick<LateStarts, 'requested' | 'refused'>
  /** False if the spec is invalid: the build gets no new servers. */
  readonly validateSpec: (build: BuildEntry) => boolean
}

export class ServerStarter {
  readonly #ctx: EngineContext
  readonly #deps: ServerStarterDependencies

  constructor(ctx: EngineContext, deps: ServerStarterDependencies) {
    this.#ctx = ctx
    this.#deps = deps
  }

  /** Returns the time in ms after which to try again if the server cannot be started yet. */
  async start(entry: ServerEntry): Promise<number | undefined> {
    const { build } = entry
    try {
      const waitMs = this.#prepareStart(entry)
      if (waitMs !== undefined) return waitMs
      const created = await this.#ctx.createLimiter(build, async () => {
        // While waiting for the limiter, the server may have ended, or the engine may have stopped.
        if (entry.record.state !== 'Pending' || entry.instance || this.#ctx.stopped()) return undefined
        // The template may also have changed and need its own preparation.
        const newWaitMs = this.#prepareStart(entry)
        if (newWaitMs !== undefined) return newWaitMs
        return this.#create(entry)
      })
      if (typeof created !== 'object') return created
      this.#gotPort(entry)
      this.#deps.watcher.observe(created)
      // `observe` has already reported why the instance is blocked.
      if (created.blocked) return undefined
    } catch (error) {
      setPendingReason(this.#ctx, entry, messageOf(error))
      this.#deps.lateStarts.refused(entry)
      if (FleetError.is(error, 'ports-exhausted')) build.withoutPort.add(entry)
      else build.withoutPort.delete(entry)
      this.#deps.preparation.markStale(build)
      await this.#deps.startFailures.report(entry, error)
      throw error
    }
    if (this.#canClearCreateBlocked(build)) await this.#deps.conditions.clear(build, 'CreateBlocked')
    return undefined
  }

  #create(entry: ServerEntry): Promise<Instance> {
    const { agentAddress, backend, clock, limits } = this.#ctx
    entry.createRequested = true
    entry.agentWasAway = false
    this.#deps.lateStarts.requested(entry)
    const spec = instanceSpec(entry, agentAddress)
    return withTimeout(clock, limits.callTimeoutMs, `the start of ${entry.record.name}`, (signal) =>
      backend.create(spec, { signal }),
    )
  }

  /**
   * Returns undefined if the server may start now, or else the time in ms after which to try again. Throws the error of a
   * failed preparation.
   */
  #prepareStart(entry: ServerEntry): number | undefined {
    if (!isSaved(entry)) return 0
    if (entry.build.deleted) return undefined
    if (!this.#deps.validateSpec(entry.build)) return this.#waitForValidSpec(entry)
    if (isCurrent(entry)) return this.#deps.preparation.prepareFor(entry)
    // If the backend has not been called for the server, the next reconcile gives it the current template.
    return entry.createRequested ? this.#replace(entry) : 0
  }

  #waitForValidSpec(entry: ServerEntry): number {
    const invalid = entry.build.record.conditions.find(({ type }) => type === 'Invalid')
    setPendingReason(this.#ctx, entry, invalid?.message ?? 'the spec of its build is invalid')
    return this.#ctx.limits.backoffInitialMs
  }

  /**
   * Replaces a server whose template changed after the first call to the backend, because the instance may not match the
   * record.
   */
  #replace(entry: ServerEntry): number {
    const { clock, inventory } = this.#ctx
    const message = 'the template of its build changed before it started'
    inventory.update(entry, transition(entry.record, { type: 'end', reason: 'Replaced', message }, clock.now()))
    return 0
  }

  #gotPort(entry: ServerEntry): void {
    const { build } = entry
    build.freedPorts = Math.max(0, build.freedPorts - 1)
    // Several ports may have come free, so the next server that waits for one tries at once.
    const [next] = build.withoutPort.delete(entry) ? build.withoutPort : []
    if (next) this.#ctx.requeue(next)
  }

  #canClearCreateBlocked(build: BuildEntry): boolean {
    const { clock } = this.#ctx
    // Keep the condition while the build backs off because servers crash on start. The reconciler clears it once no server
    // is Pending.
    const isBackingOff = !isOver(build.backoff, clock.elapsed(), backoffLimits(this.#ctx))
    return !build.deleted && hasCondition(build.record, 'CreateBlocked') && !isBackingOff && !hasBlockedServer(build)
  }
}

function hasBlockedServer({ buckets }: BuildEntry): boolean {
  return [buckets.pending, buckets.outdatedPending, buckets.late, buckets.outdatedLate, buckets.setAside].some(
    (bucket) => [...bucket].some(({ instance }) => instance?.blocked),
  )
}

function instanceSpec(entry: ServerEntry, heartbeatEndpoint: string): InstanceSpec {
  const { uid, name, token } = entry.record
  const build = entry.build.record
  return {
    ref: entry.ref,
    uid,
    build: { namespace: build.namespace, name: build.name, uid: build.uid, buildID: build.spec.buildID },
    template: build.spec.template,
    portsToExpose: build.spec.portsToExpose,
    ...(build.spec.eviction === 'never' && { isProtected: true }),
    sdk: {
      heartbeatEndpoint,
      sessionHostId: sessionHostId(name, token),
      buildMetadata: build.spec.buildMetadata ?? {},
    },
  }
}
