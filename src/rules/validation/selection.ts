/** Checks what the schema of a selector cannot express. Pure. */
import type { AllocationOrder, AllocationRequest, LabelExpression } from '../model/allocation.js'
import type { BuildSpec } from '../model/resources.js'
import { sizeLimits } from '../model/sizes.js'
import { invalid, type Refused } from './problem.js'
import { checkCounterChanges } from './server-data.js'

/** Checks the selectors and changes of a request that the schema has accepted. */
export function checkSelection(request: Partial<AllocationRequest>): Refused | undefined {
  for (const [i, selector] of (request.select ?? []).entries()) {
    const { builds, buildLabels } = selector
    if (builds === undefined && Object.keys(buildLabels ?? {}).length === 0) {
      return invalid(`select[${i}]`, 'must name builds: set builds, or buildLabels to at least one label')
    }
    for (const part of ['buildLabels', 'matchLabels', 'counters', 'lists'] as const) {
      const conditions = selector[part]
      if (!conditions) continue
      const size = Object.keys(conditions).length
      const max = sizeLimits.selectorConditions
      if (size > max) return invalid(`select[${i}].${part}`, `must have at most ${max} entries, but has ${size}`)
    }
    for (const [j, expression] of (selector.matchExpressions ?? []).entries()) {
      const problem = problemOf(expression)
      if (problem !== undefined) return invalid(`select[${i}].matchExpressions[${j}].values`, problem)
    }
  }
  if (request.server && request.order) return invalid('order', 'is not allowed beside server')
  return (request.order && checkOrder(request.order)) ?? checkCounterChanges(request)
}

/** Checks the labels and the order in a spec, which the schema has accepted. */
export function checkBuildSelection({
  labels = {},
  order,
  counters = {},
}: Pick<BuildSpec, 'labels' | 'order' | 'counters'>): Refused | undefined {
  const size = Object.keys(labels).length
  if (size > sizeLimits.buildLabels) {
    return invalid('spec.labels', `must have at most ${sizeLimits.buildLabels} entries, but has ${size}`)
  }
  if (!order) return undefined
  const { counter } = order
  const refused = checkOrder(order, 'spec.')
  if (refused || counter === undefined || Object.hasOwn(counters, counter)) return refused
  return invalid('spec.order.counter', `must be one of spec.counters, which has no ${counter}`)
}

function checkOrder({ by, counter }: AllocationOrder, prefix: '' | 'spec.' = ''): Refused | undefined {
  const needsCounter = by === 'least-available' || by === 'most-available'
  if (needsCounter && counter === undefined) return invalid(`${prefix}order.counter`, `must be set for the order ${by}`)
  return needsCounter || counter === undefined
    ? undefined
    : invalid(`${prefix}order.counter`, `is not allowed for the order ${by}`)
}

/** Of the values. */
function problemOf({ operator, values }: LabelExpression): string | undefined {
  const needsValues = operator === 'In' || operator === 'NotIn'
  if (needsValues && values === undefined) return `must be set for the operator ${operator}`
  return needsValues || values === undefined ? undefined : `is not allowed for the operator ${operator}`
}
