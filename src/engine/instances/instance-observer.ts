/** Applies what the backend reports about an instance to its server. Synchronous. */
import type { Instance } from '../../contracts/backend.js'
import { transition } from '../../rules/lifecycle/lifecycle.js'
import type { Ref } from '../../rules/model/resources.js'
import { cutMessage } from '../../rules/model/sizes.js'
import type { EngineContext } from '../context.js'
import { setPendingReason } from '../reporting/start-failures.js'
import type { ServerEntry } from '../state/entries.js'
import { lookUp } from '../state/inventory.js'

export interface InstanceObserverDependencies {
  /** Called when the server's instance exists and has not ended. */
  readonly starting: (entry: ServerEntry, phase: 'pending' | 'running') => void
  /** Called when a server's process is running, to start its heartbeat timeout. */
  readonly running: (entry: ServerEntry) => void
  /** Called when a server stays Pending until someone fixes the cause. */
  readonly startBlocked: (entry: ServerEntry, reason: string) => void
  /** Called for an instance that belongs to no server. */
  readonly orphan: (instance: Instance) => void
}

export class InstanceObserver {
  readonly #ctx: EngineContext
  readonly #deps: InstanceObserverDependencies
  #lastSeq = 0

  constructor(ctx: EngineContext, deps: InstanceObserverDependencies) {
    this.#ctx = ctx
    this.#deps = deps
  }

  /** Sequence number of the latest observation. */
  get lastSeq(): number {
    return this.#lastSeq
  }

  observe(observed: Instance): void {
    const instance = withShortReason(observed)
    const entry = lookUp(this.#ctx.inventory.servers, instance.ref)
    if (!entry || entry.record.uid !== instance.uid) return this.#deps.orphan(instance)
    const wasRunning = entry.instance?.phase === 'running'
    entry.instance = instance
    entry.createRequested = true
    entry.observationSeq = ++this.#lastSeq
    if (instance.phase !== 'exited') this.#deps.starting(entry, instance.phase)
    switch (instance.phase) {
      case 'pending':
        // It was heard already: the backend is behind.
        if (entry.record.state !== 'Pending') return
        if (instance.blocked && instance.reason !== entry.pendingReason)
          this.#deps.startBlocked(entry, instance.reason ?? '')
        setPendingReason(this.#ctx, entry, instance.reason)
        return
      case 'running':
        entry.pendingReason = undefined
        if (!wasRunning) this.#deps.running(entry)
        return this.#observeRunning(entry, instance)
      case 'exited':
        return this.#observeExit(entry, instance)
    }
  }

  observeGone(ref: Ref, uid: string): void {
    const entry = lookUp(this.#ctx.inventory.servers, ref)
    if (entry?.record.uid === uid) this.observeMissing(entry)
  }

  /** Call when the backend has no instance for this server. */
  observeMissing(entry: ServerEntry): void {
    const { clock, inventory } = this.#ctx
    // If a Pending server's instance has never been seen, it only needs to be created.
    const existed = entry.instance !== undefined || entry.record.state !== 'Pending'
    entry.instance = undefined
    entry.heartbeatLink.set?.delete(entry)
    entry.observationSeq = ++this.#lastSeq
    if (existed) inventory.update(entry, transition(entry.record, { type: 'gone' }, clock.now()))
    this.#ctx.requeue(entry)
  }

  #observeRunning(entry: ServerEntry, { address, node, ports }: Instance): void {
    const { clock, inventory } = this.#ctx
    const event = {
      type: 'running' as const,
      ...(address !== undefined && { address }),
      ...(node !== undefined && { node }),
      ports,
    }
    inventory.update(entry, transition(entry.record, event, clock.now()))
  }

  #observeExit(entry: ServerEntry, { exitCode, reason, interrupted }: Instance): void {
    const { clock, inventory } = this.#ctx
    const event = {
      type: 'exited' as const,
      ...(exitCode !== undefined && { exitCode }),
      ...(reason !== undefined && { reason }),
      ...(interrupted && { interrupted }),
      ...(entry.agentWasAway && { agentWasAway: true as const }),
    }
    entry.heartbeatLink.set?.delete(entry)
    inventory.update(entry, transition(entry.record, event, clock.now()))
    this.#ctx.requeue(entry)
  }
}

/** Backends quote commands and answers of other programs, which may be of any length. */
function withShortReason(instance: Instance): Instance {
  if (instance.reason === undefined) return instance
  const reason = cutMessage(instance.reason)
  return reason === instance.reason ? instance : { ...instance, reason }
}
