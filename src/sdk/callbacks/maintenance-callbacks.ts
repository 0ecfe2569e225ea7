/** Calls a game's `onMaintenance` callbacks, once for each announced time. */
import type { Logger } from '../../contracts/logger.js'

export type MaintenanceCallback = (beginsAt: Date) => void | Promise<void>

export class MaintenanceCallbacks {
  readonly #logger: Logger
  readonly #callbacks: MaintenanceCallback[] = []
  /** The last announced time in ms. Kept when an answer lacks it: a host that does not lead does not know it. */
  #lastAt: number | undefined

  constructor(logger: Logger) {
    this.#logger = logger
  }

  add(fn: MaintenanceCallback): void {
    this.#callbacks.push(fn)
    if (this.#lastAt !== undefined) void this.#call(fn, this.#lastAt)
  }

  /** Call with the time in every answer that has one. */
  announced(at: number): void {
    if (at === this.#lastAt) return
    this.#lastAt = at
    this.#logger.info({ beginsAt: new Date(at).toISOString() }, 'maintenance is announced')
    for (const callback of this.#callbacks) void this.#call(callback, at)
  }

  async #call(callback: MaintenanceCallback, at: number): Promise<void> {
    try {
      await callback(new Date(at))
    } catch (err) {
      this.#logger.error({ err }, 'an onMaintenance callback failed')
    }
  }
}
