/** What all parts of a story share. */
import type { BackendModel } from './backend-model.js'
import type { Hosts } from './hosts.js'
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
  readonly hosts: Hosts
  readonly tally: { allocations: number; refusals: number }
}

export interface Doomed {
  readonly kind: 'crashes' | 'refused'
  readonly standingBy: number
  readonly creations: Creations
}

export const doomedBuild = 'doomed'
