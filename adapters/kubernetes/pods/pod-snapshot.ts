/** A pod of the fleet, as the cluster has told of it. */
import type { Instance } from '../../../src/contracts/backend.js'
import type { Identity } from './labels.js'
import type { Pod } from './pod-objects.js'

export interface PodSnapshot {
  readonly identity: Identity
  readonly pod: Pod
  readonly instance: Instance
  /** The pod's own. */
  readonly podUid: string
  /** As of which this is known. */
  readonly revision: number
}
