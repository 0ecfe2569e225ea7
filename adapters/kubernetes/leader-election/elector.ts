/** The Kubernetes backend's elector: hosts compete for a Lease. */
import type { Candidacy, ElectionListener, Elector } from '../../../src/contracts/elector.js'
import { keyOf } from '../../../src/rules/model/resources.js'
import { Candidate } from './candidate.js'
import type { CandidateDependencies } from './candidate-dependencies.js'
import { addressIn } from './lease.js'
import { watchLease } from './lease-watch.js'

export interface LeaseElector extends Required<Elector> {
  /** `namespace/name` of the Lease; the same on all hosts of a fleet. */
  readonly lease: string
}

export function leaseElector(deps: CandidateDependencies): LeaseElector {
  return Object.freeze({
    lease: keyOf(deps),
    run(listener: ElectionListener, { address }: Candidacy = {}) {
      const candidate = new Candidate({ ...deps, address }, listener)
      candidate.start()
      return () => candidate.resign()
    },
    follow(changed: (address: string | undefined) => void) {
      const { scope } = deps
      if (!scope) return () => {}
      return watchLease(deps, {
        seen: (lease) => changed(lease && addressIn(lease, scope)),
        // Until the watch is open again, the last leader that is known is the most likely one.
        following: () => {},
      })
    },
  })
}
