/**
 * The creations in progress, one per server and shared by all callers, and the instances that the orchestrator permanently
 * rejected. Rejected instances exist only here.
 */
import type { Instance, InstanceSpec } from '../../src/contracts/backend.js'
import { FleetError } from '../../src/contracts/errors.js'
import { keyOf, type Ref } from '../../src/rules/model/resources.js'
import { unlessAborted } from '../../src/util/signals.js'
import { InFlight } from './in-flight.js'
import type { Listeners } from './listeners.js'

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

  *heldPorts(): Generator<number> {
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
