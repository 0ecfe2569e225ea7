/** Reserves servers for sessions, and room on servers that have other sessions, in the tick in which a caller finds them. */
import type { NewSession } from '../../rules/model/resources.js'
import { isAllocatable } from '../../rules/planning/allocation.js'
import type { Selection } from '../../rules/planning/selection.js'
import type { EngineContext } from '../context.js'
import type { BuildEntry, ServerEntry } from '../state/entries.js'
import type { BatchGate, HeldServer } from '../allocation/batch-gate.js'
import type { CallInProgress } from '../allocation/call-in-progress.js'
import type { FurtherSessions } from './further-sessions.js'
import type { RetryGrace } from '../allocation/retry-grace.js'
import type { Selector } from '../allocation/selector.js'
import type { WaitQueue } from '../allocation/wait-queue.js'

export interface PlacesDependencies {
  readonly further: FurtherSessions
  readonly retryGrace: Pick<RetryGrace, 'remove'>
  readonly selector: Pick<Selector, 'accepts'>
  readonly waitQueue: Pick<WaitQueue, 'serveMate'>
}

export class Places {
  readonly #ctx: EngineContext
  readonly #deps: PlacesDependencies
  /** The servers that an atomic batch has held. */
  readonly #heldBy = new WeakMap<BatchGate, Set<ServerEntry>>()

  constructor(ctx: EngineContext, deps: PlacesDependencies) {
    this.#ctx = ctx
    this.#deps = deps
  }

  /** A server of the build that the same batch holds for one of its sessions, and that takes another. */
  heldWithRoom(gate: BatchGate | undefined, { slots }: BuildEntry): ServerEntry | undefined {
    if (!gate || !slots) return undefined
    for (const entry of this.#heldBy.get(gate) ?? []) {
      if (entry.held && entry.build.slots === slots && slots.hasRoomBeside(entry)) return entry
    }
    return undefined
  }

  /** Takes a server for a session, or room on one that has others: for an atomic batch, only holds it. */
  take(entry: ServerEntry, call: CallInProgress, session: NewSession, gate: BatchGate | undefined): void {
    call.isFurther = !isAllocatable(entry.record) || entry.intent !== undefined || entry.held
    if (call.isFurther) {
      this.#deps.retryGrace.remove(session.id, entry.build)
      this.#deps.further.promise(entry)
    } else if (gate) {
      this.#ctx.inventory.hold(entry)
      this.#heldBy.set(gate, (this.#heldBy.get(gate) ?? new Set()).add(entry))
      for (const key of gate.sessions) {
        if (!entry.build.slots?.hasRoomBeside(entry)) break
        this.#deps.waitQueue.serveMate(key, entry)
      }
    } else {
      this.#reserve(entry, session, call.selection)
    }
  }

  /** Gives up what `take` has taken. */
  release(entry: ServerEntry, { isFurther }: CallInProgress): void {
    if (isFurther) this.#deps.further.giveUp(entry)
    else this.#ctx.inventory.release(entry)
  }

  /** What `take` has taken for a session of an atomic batch. */
  held(entry: ServerEntry, { selection, isFurther }: CallInProgress, session: NewSession): HeldServer {
    const { further, selector } = this.#deps
    const fits = () => (selection ? selector.accepts(selection, entry) : !entry.build.draining)
    if (isFurther) return further.held(entry, fits)
    return {
      isFree: () => entry.held && isAllocatable(entry.record) && fits(),
      reserve: () => this.#reserve(entry, session, selection),
      release: () => {
        this.#ctx.inventory.release(entry)
        this.#ctx.enqueue(entry.build)
      },
    }
  }

  #reserve(entry: ServerEntry, session: NewSession, selection?: Selection): void {
    this.#ctx.inventory.reserve(entry, session, selection)
    this.#deps.retryGrace.remove(session.id, entry.build)
    this.#ctx.enqueue(entry.build)
  }
}
