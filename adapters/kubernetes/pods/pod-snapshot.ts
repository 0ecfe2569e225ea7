/** A pod of the fleet as last reported by the API server. */
import type { Instance } from '../../../src/contracts/backend.js'
import type { Identity } from './labels.js'
import type { Pod } from './pod-objects.js'

export interface PodSnapshot {
  readonly identity: Identity
  readonly pod: Pod
  readonly instance: Instance
  /** The pod's uid, not the server's. */
  readonly podUid: string
  /** The pod's resourceVersion, as a number. */
  readonly revision: number
}
