/** Checks what the schema of a selector cannot express. Pure. */
import type { AllocationOrder, AllocationRequest, LabelExpression } from '../model/allocation.js'
import { sizeLimits } from '../model/sizes.js'
import { invalid, type Refused } from './problem.js'
import { checkCounterChanges } from './server-data.js'

/** Checks the selectors and changes of a request that the schema has accepted. */
export function checkSelection(request: AllocationRequest): Refused | undefined {
  for (const [i, selector] of (request.select ?? []).entries()) {
    const field = `select[${i}]`
    for (const part of ['matchLabels', 'counters', 'lists'] as const) {
      const size = Object.keys(selector[part] ?? {}).length
      const max = sizeLimits.selectorConditions
      if (size > max) return invalid(`${field}.${part}`, `must have at most ${max} entries, but has ${size}`)
    }
    for (const [j, expression] of (selector.matchExpressions ?? []).entries()) {
      const refused = checkExpression(`${field}.matchExpressions[${j}].values`, expression)
      if (refused) return refused
    }
  }
  return (request.order && checkOrder(request.order)) ?? checkCounterChanges(request)
}

function checkOrder({ by, counter }: AllocationOrder): Refused | undefined {
  const needsCounter = by === 'least-available' || by === 'most-available'
  if (needsCounter && counter === undefined) return invalid('order.counter', `must be set for the order ${by}`)
  return needsCounter || counter === undefined
    ? undefined
    : invalid('order.counter', `is not allowed for the order ${by}`)
}

function checkExpression(field: string, { operator, values }: LabelExpression): Refused | undefined {
  const needsValues = operator === 'In' || operator === 'NotIn'
  if (needsValues && values === undefined) return invalid(field, `must be set for the operator ${operator}`)
  return needsValues || values === undefined ? undefined : invalid(field, `is not allowed for the operator ${operator}`)
}
