/** Operations in progress: creations and terminations of instances, each of which runs once at a time. */
import type { DestroyOptions, Instance, InstanceSpec } from '../../src/contracts/backend.js'
import { FleetError } from '../../src/contracts/errors.js'
import { keyOf, type Ref } from '../../src/rules/model/resources.js'
import { shown } from '../../src/rules/validation/problem.js'
import { unlessAborted } from '../../src/util/signals.js'
import type { Listeners } from './backend-lifecycle.js'

interface Running<Operation, Result> {
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

// The creations in progress, one per server and shared by all callers, and the instances that the orchestrator permanently
// rejected. Rejected instances exist only here.

/** `rejected` means that the orchestrator will never run this spec; the instance is `exited` and contains the reason. */
export type CreationOutcome = { readonly instance: Instance } | { readonly rejected: Instance }

export interface Creation {
  readonly uid: string
  /** Public ports reserved for the instance; they may change until the creation finishes. */
  readonly ports: readonly number[]
  run(): Promise<CreationOutcome>
}

export class Creations<C extends Creation> {
  readonly #listeners: Listeners
  readonly #inFlight = new InFlight<C, Instance>()
  readonly #rejected = new Map<string, Instance>()

  constructor(listeners: Listeners) {
    this.#listeners = listeners
  }

  has(key: string): boolean {
    return this.#inFlight.has(key)
  }

  /**
   * Runs the creation that `begin` returns, or joins the one in progress. Rejects with `conflict` while an instance with the
   * same name and a different uid is being created, and with any error from `Creation.run`.
   */
  async create(spec: InstanceSpec, signal: AbortSignal | undefined, begin: () => C): Promise<Instance> {
    const key = keyOf(spec.ref)
    const rejected = this.#rejected.get(key)
    if (rejected?.uid === spec.uid) return rejected
    const running = this.#inFlight.get(key)
    if (running) {
      if (running.operation.uid === spec.uid) return unlessAborted(running.done, signal)
      throw new FleetError('conflict', `another instance of ${key} is being created`)
    }
    const creation = begin()
    return this.#inFlight.start(key, creation, () => this.#run(key, creation))
  }

  /** Resolves once any creation in progress for this server has succeeded or failed. */
  settled(key: string): Promise<void> {
    return this.#inFlight.settled(key)
  }

  allSettled(): Promise<void> {
    return this.#inFlight.allSettled()
  }

  rejected(): Iterable<Instance> {
    return this.#rejected.values()
  }

  forgetRejected(ref: Ref, uid: string): void {
    const key = keyOf(ref)
    if (this.#rejected.get(key)?.uid !== uid) return
    this.#rejected.delete(key)
    this.#listeners.notifyAll((listener) => listener.gone(ref, uid))
  }

  inProgress(): readonly C[] {
    return this.#inFlight.operations()
  }

  *takenPorts(): Generator<number> {
    for (const creation of this.#inFlight.operations()) yield* creation.ports
  }

  async #run(key: string, creation: C): Promise<Instance> {
    const outcome = await creation.run()
    if ('instance' in outcome) return outcome.instance
    const { rejected } = outcome
    this.#rejected.set(key, rejected)
    this.#listeners.notifyAll((listener) => listener.changed(rejected))
    return rejected
  }
}

// The terminations in progress, one per server and shared by all callers. Each uses the shortest of its callers' grace
// periods.

export interface Termination {
  readonly uid: string
  /** Brings the end of the grace period forward; never postpones it. */
  shorten(graceMs: number): void
  /** Resolves once the instance no longer exists. */
  run(): Promise<void>
}

export class Terminations<T extends Termination> {
  readonly #inFlight = new InFlight<T, void>()

  has(key: string): boolean {
    return this.#inFlight.has(key)
  }

  get(key: string): T | undefined {
    return this.#inFlight.get(key)?.operation
  }

  inProgress(): readonly T[] {
    return this.#inFlight.operations()
  }

  /**
   * Runs the termination that `begin` returns, or joins the one in progress. Resolves once no instance with this uid exists.
   */
  async terminate(ref: Ref, uid: string, { graceMs, signal }: DestroyOptions, begin: () => T): Promise<void> {
    const key = keyOf(ref)
    const running = this.#inFlight.get(key)
    if (!running) {
      const termination = begin()
      return unlessAborted(
        this.#inFlight.start(key, termination, () => termination.run()),
        signal,
      )
    }
    // Names are unique: while one uid is being terminated, no instance of the server with another uid exists.
    if (running.operation.uid !== uid) return undefined
    running.operation.shorten(graceMs)
    return unlessAborted(running.done, signal)
  }

  allSettled(): Promise<void> {
    return this.#inFlight.allSettled()
  }
}

/** Throws `invalid` unless the grace period is a number ≥ 0. */
export function checkGraceMs(graceMs: number): void {
  if (!(graceMs >= 0)) throw new FleetError('invalid', `graceMs must be a number ≥ 0, but is ${shown(graceMs)}`)
}
