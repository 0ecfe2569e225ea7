/** Implements `allocateMany`: validates the batch, audits and measures each of its allocations. */
import { FleetError, messageOf, throwIfAborted } from '../contracts/errors.js'
import type { AllocateManyOptions } from '../contracts/fleet.js'
import { checkNames, checkWait } from '../contracts/option-checks.js'
import type { Allocation, BatchResult } from '../contracts/sessions.js'
import type { AllocationRequest } from '../rules/model/resources.js'
import { readBatch } from '../rules/validation/batch.js'
import { shown } from '../rules/validation/problem.js'
import type { Audit, AuditedSubject } from './audit.js'
import type { LeaderTerm } from './leadership/leader-term.js'
import { refusedRequest } from './refused-request.js'

export interface BatchCallDependencies {
  readonly term: LeaderTerm
  readonly maxWaitMs: number
  readonly audit: Audit
  readonly subjectOf: (request: AllocationRequest, allocation?: Allocation) => AuditedSubject | undefined
}

export async function allocateMany(
  { term, maxWaitMs, audit, subjectOf }: BatchCallDependencies,
  requests: unknown,
  options: AllocateManyOptions,
): Promise<readonly BatchResult[]> {
  checkNames('allocateMany', options, ['atomic', 'waitMs', 'signal', 'caller'])
  const { atomic = false, waitMs = 0, signal } = options
  throwIfAborted(signal)
  if (typeof atomic !== 'boolean') {
    throw new FleetError('invalid', `atomic must be true or false, but is ${shown(atomic)}`)
  }
  checkWait(waitMs, maxWaitMs)
  const checked = readBatch(requests)
  if (!checked.ok) throw refusedRequest(checked.problem)
  const outcomes = term.engine().batches.allocate(checked.value, { atomic, waitMs, signal })
  // Each allocation is one call to the audit and to the observers, as if it had been made alone.
  const settled = checked.value.map((request, i) => {
    const one = async (): Promise<Allocation> => {
      const outcome = (await outcomes)[i]
      if (outcome?.status === 'fulfilled') return outcome.value
      throw outcome?.reason
    }
    const audited = () => audit.call('allocate', options, (allocation) => subjectOf(request, allocation), one)
    const { observers } = term
    if (observers.isEmpty) return audited()
    return observers.timedCall(audited, (observer, outcome, ms) => observer.allocated?.(outcome, ms))
  })
  const results = await Promise.allSettled(settled)
  // An atomic batch rejects as a whole.
  await outcomes
  return results.map((result, i) => resultOf(checked.value[i]?.sessionID ?? '', result))
}

function resultOf(sessionID: string, result: PromiseSettledResult<Allocation>): BatchResult {
  if (result.status === 'fulfilled') return { sessionID, allocation: result.value }
  const reason: unknown = result.reason
  const error = FleetError.is(reason) ? reason : new FleetError('internal', messageOf(reason), { cause: reason })
  return { sessionID, error }
}
