/**
 * Invariants: a game that sends heartbeats receives Terminate before its termination signal, and every game has its whole
 * grace period, from Terminate or the signal, before it is killed.
 */
import type { Build } from '../../../../src/rules/model/resources.js'
import { graceSecondsOf } from '../../../../src/rules/validation/pod-template.js'
import type { BackendModel, ModelInstance } from '../../models/backend-model.js'
import type { Host } from '../../world/host.js'
import type { Lease } from '../../world/lease.js'
import type { World } from '../../world/world.js'

interface Termination {
  terminateAt: number | undefined
  signalAt: number | undefined
}

export interface GracePeriodsDependencies {
  readonly backend: BackendModel
  readonly lease: Lease
}

/** The shortest silence after which a server may be signalled without Terminate. */
const heardWithinMs = 8_000

export class GracePeriods {
  readonly #terminations = new WeakMap<ModelInstance, Termination>()
  /** Uids of builds that have ever had `SignalFirst`. */
  readonly #signalFirst = new Set<string>()

  constructor(
    readonly world: World,
    readonly deps: () => GracePeriodsDependencies,
  ) {}

  buildWritten({ uid, spec }: Build): void {
    if (spec.termination === 'SignalFirst') this.#signalFirst.add(uid)
  }

  /** Called when the answer to a heartbeat is Terminate. */
  terminateReceived(instance: ModelInstance): void {
    this.#of(instance).terminateAt ??= this.world.elapsedMs
  }

  /** Called when a running instance gets its termination signal from this host. */
  signalled(instance: ModelInstance, host: Host): void {
    const { world } = this
    const termination = this.#of(instance)
    termination.signalAt ??= world.elapsedMs
    const { spec, lastHeartbeat } = instance
    const { lease } = this.deps()
    const isHeard =
      lastHeartbeat?.by === host &&
      lastHeartbeat.at >= lease.electedAt &&
      lastHeartbeat.at > world.elapsedMs - heardWithinMs
    if (!isHeard || termination.terminateAt !== undefined || host.closing) return
    if (this.#signalFirst.has(spec.build.uid)) return
    if (this.#isRecreated(instance)) return
    world.violate(`${spec.ref.name} was signalled before it received Terminate, although it sends heartbeats`)
  }

  /** Called when a running instance is killed because its grace period is over. */
  killed(instance: ModelInstance): void {
    const { terminateAt = Infinity, signalAt = Infinity } = this.#of(instance)
    const lastedMs = this.world.elapsedMs - Math.min(terminateAt, signalAt)
    const graceMs = 1_000 * graceSecondsOf(instance.spec.template)
    // The host counts from the first instance.
    if (lastedMs >= graceMs || this.#isRecreated(instance)) return
    this.world.violate(`${instance.spec.ref.name} was killed after ${lastedMs} ms of its grace period of ${graceMs} ms`)
  }

  /** True if a late create has recreated a deleted instance. The host may still know it as gone. */
  #isRecreated({ spec: { uid } }: ModelInstance): boolean {
    const { backend } = this.deps()
    return backend.removed.has(uid) || backend.deletedExternally.has(uid)
  }

  #of(instance: ModelInstance): Termination {
    const known = this.#terminations.get(instance)
    if (known) return known
    const created: Termination = { terminateAt: undefined, signalAt: undefined }
    this.#terminations.set(instance, created)
    return created
  }
}
