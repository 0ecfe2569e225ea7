/** Validates several allocations that are made in one call. Pure. */
import type { AllocationRequest } from '../model/allocation.js'
import { sessionKey } from '../model/session-ids.js'
import { sizeLimits } from '../model/sizes.js'
import { type Checked, invalid, shown, valid } from './problem.js'
import { readAllocationRequest } from './requests.js'

/** Reads the requests of a batch. The result is a copy. Refuses a session that is named twice. */
export function readBatch(requests: unknown): Checked<readonly AllocationRequest[]> {
  if (!Array.isArray(requests) || requests.length === 0) {
    return invalid('requests', `must be an array of at least one allocation request, but is ${shown(requests)}`)
  }
  const { length } = requests
  if (length > sizeLimits.batch)
    return invalid('requests', `must have at most ${sizeLimits.batch} items, but has ${length}`)
  const checked: AllocationRequest[] = []
  const places = new Map<string, number>()
  for (const [i, request] of requests.entries()) {
    const one = readAllocationRequest(request)
    if (!one.ok) {
      const { field, message } = one.problem
      return invalid(field === 'body' ? `requests[${i}]` : `requests[${i}].${field}`, message)
    }
    const { sessionID } = one.value
    const other = places.get(sessionKey(sessionID))
    if (other !== undefined) {
      return invalid(
        `requests[${i}].sessionID`,
        `must not repeat requests[${other}].sessionID, which is ${shown(sessionID)}`,
      )
    }
    places.set(sessionKey(sessionID), i)
    checked.push(one.value)
  }
  return valid(checked)
}
