/** Whether a node has what a template's required node affinity asks for, as the scheduler sees it. Pure. */
import type { PodTemplateSpec } from '../../../src/rules/model/resources.js'
import { type Fields, objectAt, objectsAt, stringAt } from '../../../src/rules/validation/pod-template.js'
import type { Node } from './node-cache.js'

/** True if the template requires nothing. Requirements about other pods do not count: they change with every pod. */
export function matchesNodeAffinity({ metadata = {} }: Node, template: PodTemplateSpec): boolean {
  const affinity = objectAt(objectAt(objectAt(template, 'spec'), 'affinity'), 'nodeAffinity')
  if (!Object.hasOwn(affinity, required)) return true
  const { name = '', labels = {} } = metadata
  const fields = { 'metadata.name': name }
  // The terms are alternatives. One without requirements matches no node.
  return objectsAt(objectAt(affinity, required), 'nodeSelectorTerms').some((term) => {
    const expressions = objectsAt(term, 'matchExpressions')
    const fieldRequirements = objectsAt(term, 'matchFields')
    return (
      expressions.length + fieldRequirements.length > 0 &&
      expressions.every((requirement) => isMet(requirement, labels)) &&
      fieldRequirements.every((requirement) => isMet(requirement, fields))
    )
  })
}

const required = 'requiredDuringSchedulingIgnoredDuringExecution'

function isMet(requirement: Fields, values: Readonly<Record<string, string>>): boolean {
  const actual = values[stringAt(requirement, 'key') ?? '']
  const wanted = Array.isArray(requirement['values']) ? requirement['values'].map(String) : []
  switch (stringAt(requirement, 'operator') ?? '') {
    case 'In':
      return actual !== undefined && wanted.includes(actual)
    case 'NotIn':
      return actual === undefined || !wanted.includes(actual)
    case 'Exists':
      return actual !== undefined
    case 'DoesNotExist':
      return actual === undefined
    case 'Gt':
      return actual !== undefined && Number(actual) > Number(wanted[0])
    case 'Lt':
      return actual !== undefined && Number(actual) < Number(wanted[0])
    default:
      return false
  }
}
