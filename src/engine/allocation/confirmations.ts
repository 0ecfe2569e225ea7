/** Lets callers wait until the game has confirmed its session, by reporting Active. */
import { FleetError, throwIfAborted } from '../../contracts/errors.js'
import { sessionByKey } from '../../rules/lifecycle/server-sessions.js'
import { sessionKey } from '../../rules/model/names.js'
import type { EngineContext } from '../context.js'
import type { ServerEntry } from '../state/entries.js'
import { endedUnconfirmedError, notConfirmedError } from './allocation-errors.js'

export interface ConfirmationOptions {
  /** If not positive, the game must already have confirmed the session. */
  readonly waitMs: number
  readonly signal?: AbortSignal | undefined
}

interface Waiter {
  readonly sessionID: string
  resolve(): void
  reject(error: FleetError): void
}

export class Confirmations {
  readonly #ctx: EngineContext
  readonly #waiters = new Map<ServerEntry, Set<Waiter>>()

  constructor(ctx: EngineContext) {
    this.#ctx = ctx
  }

  /** Resolves when the game has confirmed this durable session. Rejects with `not-confirmed`, `aborted` or the stop error. */
  async wait(sessionID: string, { waitMs, signal }: ConfirmationOptions): Promise<void> {
    const { clock, inventory } = this.#ctx
    const entry = inventory.serverBySession(sessionID)
    if (entry && isConfirmed(entry, sessionID)) return
    throwIfAborted(signal)
    const stopError = this.#ctx.stopError()
    if (stopError) throw stopError
    if (!entry) throw endedUnconfirmedError('the server', sessionID)
    if (entry.record.state === 'Terminating') throw endedError(entry, sessionID)
    if (waitMs <= 0) throw notConfirmedError(entry, sessionID, 0)
    await new Promise<void>((resolve, reject) => {
      const leave = () => {
        cancel()
        signal?.removeEventListener('abort', abort)
        this.#remove(entry, waiter)
      }
      const waiter: Waiter = {
        sessionID,
        resolve: () => {
          leave()
          resolve()
        },
        reject: (error) => {
          leave()
          reject(error)
        },
      }
      const abort = () =>
        waiter.reject(new FleetError('aborted', 'the caller stopped waiting', { cause: signal?.reason }))
      const cancel = clock.after(waitMs, () => waiter.reject(notConfirmedError(entry, sessionID, waitMs)))
      signal?.addEventListener('abort', abort, { once: true })
      this.#add(entry, waiter)
    })
  }

  /** Call when the game has reported Active or, if it takes several sessions, one that it had not reported before. */
  confirm(entry: ServerEntry): void {
    for (const waiter of this.#waitersOf(entry)) if (isConfirmed(entry, waiter.sessionID)) waiter.resolve()
  }

  /** Call when the server starts to terminate. */
  serverEnded(entry: ServerEntry): void {
    for (const waiter of this.#waitersOf(entry)) waiter.reject(endedError(entry, waiter.sessionID))
  }

  rejectAll(error: FleetError): void {
    for (const entry of [...this.#waiters.keys()]) {
      for (const waiter of this.#waitersOf(entry)) waiter.reject(error)
    }
  }

  #waitersOf(entry: ServerEntry): readonly Waiter[] {
    const waiters = this.#waiters.get(entry)
    return waiters ? [...waiters] : noWaiters
  }

  #add(entry: ServerEntry, waiter: Waiter): void {
    const waiters = this.#waiters.get(entry) ?? new Set<Waiter>()
    this.#waiters.set(entry, waiters.add(waiter))
  }

  #remove(entry: ServerEntry, waiter: Waiter): void {
    const waiters = this.#waiters.get(entry)
    waiters?.delete(waiter)
    if (waiters?.size === 0) this.#waiters.delete(entry)
  }
}

function isConfirmed({ confirmed, record }: ServerEntry, sessionID: string): boolean {
  const session = sessionByKey(record, sessionKey(sessionID))
  return session !== undefined && confirmed.includes(session.number)
}

const noWaiters: readonly Waiter[] = Object.freeze([])

function endedError({ record }: ServerEntry, sessionID: string): FleetError {
  return endedUnconfirmedError(`server ${record.name}`, sessionID)
}
