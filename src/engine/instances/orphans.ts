/**
 * Handles orphans: instances without a server record. An orphan is destroyed once it has exited, or has reported no match
 * for `limits.silenceMs`. If its record appears in the store in the meantime, the record is adopted instead. If it reports a match
 * and tells which server it is, it gets a new record.
 */
import type { Instance, InstanceOrigin } from '../../contracts/backend.js'
import type { Versioned } from '../../contracts/store.js'
import { keyOf, type Ref, type Server } from '../../rules/model/resources.js'
import { withTimeout } from '../../util/with-timeout.js'
import type { EngineContext } from '../context.js'

interface Orphan {
  instance: Instance
  /** Elapsed ms at which the orphan was found or last reported Active. */
  idleSince: number
  isBeingDestroyed: boolean
}

export interface OrphansDependencies {
  /** Adopts a record that an earlier leader wrote after this host read the store. */
  readonly adopt: (server: Versioned<Server>) => void
  readonly observe: (instance: Instance) => void
  /** Adds a server whose record is lost. Returns false if its build does not exist. */
  readonly recover: (instance: Instance, origin: InstanceOrigin) => boolean
}

export class Orphans {
  readonly #ctx: EngineContext
  readonly #deps: OrphansDependencies
  readonly #orphans = new Map<string, Orphan>()
  #stopped = false

  constructor(ctx: EngineContext, deps: OrphansDependencies) {
    this.#ctx = ctx
    this.#deps = deps
  }

  stop(): void {
    this.#stopped = true
  }

  observe(instance: Instance): void {
    const key = keyOf(instance.ref)
    const existing = this.#orphans.get(key)
    if (existing?.instance.uid === instance.uid) {
      existing.instance = instance
      return
    }
    const { clock, emitter, logger } = this.#ctx
    this.#orphans.set(key, { instance, idleSince: clock.elapsed(), isBeingDestroyed: false })
    logger.warn({ instance: key }, 'orphan found')
    const message = `instance ${key} has no record; it is destroyed unless a match is running on it`
    emitter.emit({ type: 'OrphanFound', at: clock.now(), instance: instance.ref, message })
  }

  /** Call when the instance no longer exists. */
  forget(ref: Ref, uid: string): void {
    const key = keyOf(ref)
    if (this.#orphans.get(key)?.instance.uid === uid) this.#orphans.delete(key)
  }

  /** Forgets every orphan whose uid is not in `uids`, the instances that the backend listed. */
  retain(uids: ReadonlySet<string>): void {
    for (const [key, orphan] of this.#orphans) if (!uids.has(orphan.instance.uid)) this.#orphans.delete(key)
  }

  /** Call when an instance with this name reports a match. Returns false if it is no orphan. */
  keepActive(name: string, hostId: string): boolean {
    for (const [key, orphan] of this.#orphans) {
      const { ref, origin } = orphan.instance
      if (ref.name !== name || (origin && origin.sessionHostId !== hostId)) continue
      orphan.idleSince = this.#ctx.clock.elapsed()
      if (this.#isRecovered(orphan)) this.#orphans.delete(key)
      return true
    }
    return false
  }

  /** In a shared store, a record may be missing because another host or a person has deleted it. */
  #isRecovered({ instance, isBeingDestroyed }: Orphan): boolean {
    const { origin, phase } = instance
    if (this.#ctx.store.shared || isBeingDestroyed || phase !== 'running') return false
    return origin !== undefined && this.#deps.recover(instance, origin)
  }

  destroyIdle(): void {
    for (const [key, orphan] of this.#orphans) {
      if (this.#isIdle(orphan) && !orphan.isBeingDestroyed) void this.#destroy(key, orphan)
    }
  }

  #isIdle({ instance, idleSince }: Orphan): boolean {
    const { clock, limits } = this.#ctx
    return instance.phase === 'exited' || clock.elapsed() - idleSince >= limits.silenceMs
  }

  restartTimers(): void {
    const now = this.#ctx.clock.elapsed()
    for (const orphan of this.#orphans.values()) orphan.idleSince = now
  }

  async #destroy(key: string, orphan: Orphan): Promise<void> {
    const { backend, clock, destroyLimiter, limits, logger, store } = this.#ctx
    orphan.isBeingDestroyed = true
    try {
      const { ref, uid, phase } = orphan.instance
      const stored = await store.servers.get(ref)
      if (this.#stopped) return
      if (stored?.record.uid === uid) {
        this.#orphans.delete(key)
        this.#deps.adopt(stored)
        this.#deps.observe(orphan.instance)
        return
      }
      const graceMs = phase === 'exited' ? 0 : limits.silenceMs
      const isDestroyed = await destroyLimiter(undefined, async () => {
        // It may have reported a match while the store was read and others were destroyed.
        if (this.#stopped || !this.#isIdle(orphan)) return false
        await withTimeout(clock, graceMs + limits.callTimeoutMs, `the destruction of ${ref.name}`, (signal) =>
          backend.destroy(ref, uid, { graceMs, signal }),
        )
        return true
      })
      if (isDestroyed && this.#orphans.get(key) === orphan) this.#orphans.delete(key)
    } catch (error) {
      orphan.idleSince = clock.elapsed()
      logger.warn({ instance: key, err: error }, 'cannot destroy an orphan; will retry')
    } finally {
      orphan.isBeingDestroyed = false
    }
  }
}
