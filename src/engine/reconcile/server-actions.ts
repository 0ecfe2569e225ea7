/**
 * Takes the next action for one server: saves its record, starts its instance, protects it, or terminates it. Actions are
 * idempotent, so that a new leader can complete what a dead host began.
 */
import { FleetError } from '../../contracts/errors.js'
import { withTimeout } from '../../util/with-timeout.js'
import type { EngineContext } from '../context.js'
import { LostServer, type ServerWriter } from '../persistence/server-writer.js'
import type { StartFailures } from '../reporting/start-failures.js'
import type { ServerEntry } from '../state/entries.js'
import { isBeingAllocated, isSaved, isUncertain, needsProtectionChange } from '../state/queries.js'
import type { ServerStarter } from './server-start.js'
import type { ServerTerminator } from './server-termination.js'

export interface ServerActionDependencies {
  readonly writer: ServerWriter
  readonly starter: ServerStarter
  readonly terminator: ServerTerminator
  readonly startFailures: Pick<StartFailures, 'startReport'>
  /** Called when the current record may have become durable. */
  readonly saved: (entry: ServerEntry) => void
}

export class ServerActions {
  readonly #ctx: EngineContext
  readonly #deps: ServerActionDependencies

  constructor(ctx: EngineContext, deps: ServerActionDependencies) {
    this.#ctx = ctx
    this.#deps = deps
  }

  /**
   * Takes the next action. Returns the time in ms to wait before the following action, or undefined if there is no need to
   * wait.
   */
  async next(entry: ServerEntry): Promise<number | undefined> {
    await this.save(entry)
    this.#deps.saved(entry)
    // If the record changed while it was being written, the new version must be durable before it is acted on.
    if (!entry.recordDeleted && isUnsaved(entry)) return 0
    if (entry.record.state === 'Pending' && !entry.instance) {
      const waitMs = await this.#deps.starter.start(entry)
      if (waitMs !== undefined) return waitMs
    } else if (entry.record.state === 'Terminating') {
      return this.#deps.terminator.terminate(entry)
    } else if (needsProtectionChange(this.#ctx, entry)) {
      if (entry.isProtected) await this.#unprotect(entry)
      else await this.#protect(entry)
    }
    if (!needsAction(this.#ctx, entry)) entry.build.needsAction.delete(entry)
    return undefined
  }

  /** Makes the current record durable, even while another action is in progress. Throws the store's error. */
  async save(entry: ServerEntry): Promise<void> {
    if (entry.recordDeleted) return
    const { writer } = this.#deps
    try {
      if (isUncertain(entry)) await writer.resolveUncertain(entry)
      // An allocation in progress writes the record itself, unless the server has been terminated since.
      else if (!isBeingAllocated(entry) || entry.record.state === 'Terminating') await writer.save(entry)
    } catch (error) {
      const cause = causeOf(error)
      // A server that never had a record cannot be started, which nothing else says.
      const isRefused = entry.revision === undefined && FleetError.is(cause, 'invalid')
      if (isRefused) this.#deps.startFailures.startReport(entry, cause)
      // The entry already has the new state, and the action continues from there.
      if (!(error instanceof LostServer)) throw error
    }
  }

  async #protect(entry: ServerEntry): Promise<void> {
    const { backend, clock, limits } = this.#ctx
    const { uid, name } = entry.record
    await withTimeout(clock, limits.callTimeoutMs, `the protection of ${name}`, async (signal) =>
      backend.protect?.(entry.ref, uid, { signal }),
    )
    entry.isProtected = true
  }

  async #unprotect(entry: ServerEntry): Promise<void> {
    const { backend, clock, limits } = this.#ctx
    const { uid, name } = entry.record
    // Even if the call fails, the instance may not be protected any more.
    entry.isProtected = false
    try {
      await withTimeout(clock, limits.callTimeoutMs, `the end of the protection of ${name}`, async (signal) =>
        backend.unprotect?.(entry.ref, uid, { signal }),
      )
    } catch (error) {
      if (entry.record.state === 'StandingBy') entry.isProtected = true
      throw error
    }
  }
}

function causeOf(error: unknown): unknown {
  return error instanceof LostServer ? error.cause : error
}

/** True if the current record is not durable and is not being written. */
export function needsSaving(entry: ServerEntry): boolean {
  if (entry.saving || entry.recordDeleted) return false
  return isUncertain(entry) || isUnsaved(entry)
}

/** True if there is something left to do that no event will trigger. */
function needsAction(ctx: EngineContext, entry: ServerEntry): boolean {
  if (isUncertain(entry) || entry.record.state === 'Terminating') return true
  if (entry.record.state === 'Pending' && !entry.instance) return true
  return needsProtectionChange(ctx, entry) || isUnsaved(entry)
}

/** False for a server that is being allocated: the allocation saves it. */
function isUnsaved(entry: ServerEntry): boolean {
  return (!isBeingAllocated(entry) || entry.record.state === 'Terminating') && !isSaved(entry)
}
