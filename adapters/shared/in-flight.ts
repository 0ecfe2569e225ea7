/** Operations in progress, at most one per key, so that concurrent callers share the same operation. */

export interface Running<Operation, Result> {
  readonly operation: Operation
  readonly done: Promise<Result>
}

export class InFlight<Operation, Result> {
  readonly #running = new Map<string, Running<Operation, Result>>()

  has(key: string): boolean {
    return this.#running.has(key)
  }

  get(key: string): Running<Operation, Result> | undefined {
    return this.#running.get(key)
  }

  /** Calls `run` immediately and settles with its result, even if it throws. Until then, `get` returns the operation. */
  start(key: string, operation: Operation, run: () => Promise<Result>): Promise<Result> {
    const result = new Promise<Result>((resolve) => resolve(run()))
    // The callback never runs before the entry exists, even if `run` throws.
    const done = result.finally(() => this.#running.delete(key))
    this.#running.set(key, { operation, done })
    return done
  }

  operations(): readonly Operation[] {
    return Array.from(this.#running.values(), ({ operation }) => operation)
  }

  /** Resolves once any operation under this key has succeeded or failed. Never rejects. */
  async settled(key: string): Promise<void> {
    await this.#running.get(key)?.done.catch(() => {})
  }

  /** Resolves once all operations currently in progress have succeeded or failed. Never rejects. */
  async allSettled(): Promise<void> {
    await Promise.allSettled(Array.from(this.#running.values(), ({ done }) => done))
  }
}
