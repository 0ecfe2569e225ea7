/** What all parts of a story share. */
import type { BackendModel } from './backend-model.js'
import type { Host } from './host.js'
import type { ByHand } from './invariants/by-hand.js'
import type { Creations } from './invariants/creations.js'
import type { Endings } from './invariants/endings.js'
import type { Sessions } from './invariants/sessions.js'
import type { Waiting } from './invariants/waiting.js'
import type { Lease } from './lease.js'
import type { StoreModel } from './store-model.js'
import type { World } from './world.js'

export interface Scene {
  readonly world: World
  readonly store: StoreModel
  readonly backend: BackendModel
  readonly lease: Lease
  readonly sessions: Sessions
  readonly waiting: Waiting
  readonly endings: Endings
  readonly byHand: ByHand
  /** The build of which no server can run, if this story has one. */
  readonly doomed: Doomed | undefined
  readonly tally: { allocations: number; refusals: number; hostCrashes: number }
  /** All hosts that are up, suspended ones included. */
  readonly hosts: readonly Host[]
  /** A host that answers, mostly the one that leads; undefined when none does. */
  anyHost(): Host | undefined
  crash(host: Host): void
  close(host: Host): void
}

export interface Doomed {
  readonly kind: 'crashes' | 'refused'
  readonly standingBy: number
  readonly creations: Creations
}

export const doomedBuild = 'doomed'
