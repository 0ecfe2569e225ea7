/** The Kubernetes backend's elector: hosts compete for a Lease. */
import type { ElectionListener, Elector } from '../../../src/contracts/elector.js'
import { keyOf } from '../../../src/rules/model/resources.js'
import { Candidate } from './candidate.js'
import type { CandidateDependencies } from './candidate-dependencies.js'

export interface LeaseElector extends Elector {
  /** `namespace/name` of the Lease; the same on all hosts of a fleet. */
  readonly lease: string
}

export function leaseElector(deps: CandidateDependencies): LeaseElector {
  return Object.freeze({
    lease: keyOf(deps),
    run(listener: ElectionListener) {
      const candidate = new Candidate(deps, listener)
      candidate.start()
      return () => candidate.resign()
    },
  })
}
