/** The parts of a simulation run that its actors and faults can access. */
import type { CreateRate } from './invariants/create-rate.js'
import type { Invariants } from './invariants/invariants.js'
import type { BackendModel } from './models/backend-model.js'
import type { StoreModel } from './models/store-model.js'
import type { WebhookModel } from './models/webhook-model.js'
import type { HostPool } from './world/host-pool.js'
import type { Lease } from './world/lease.js'
import type { World } from './world/world.js'

export interface SimulationContext {
  readonly world: World
  readonly store: StoreModel
  readonly backend: BackendModel
  readonly lease: Lease
  readonly webhooks: WebhookModel
  readonly hosts: HostPool
  readonly invariants: Invariants
  /** The build whose servers cannot run, if this run includes one. */
  readonly unrunnable: UnrunnableBuild | undefined
  /** Whether this run includes a build whose servers take several sessions. */
  readonly hasRooms: boolean
  readonly totals: { allocations: number; refusals: number }
}

export interface UnrunnableBuild {
  readonly kind: 'crashes' | 'refused' | 'hangs'
  readonly standingBy: number
  readonly createRate: CreateRate
}

export const unrunnableBuildName = 'doomed'

/** The build whose servers take several sessions, in runs that include it. */
export const severalBuildName = 'rooms'
