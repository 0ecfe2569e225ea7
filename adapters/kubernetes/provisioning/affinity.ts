/** What the fleet adds to a pod's affinity. Pure. */
import { type Fields, objectAt, objectsAt } from '../../../src/rules/validation/template-shape.js'
import type { Names } from '../pods/labels.js'

/** Adds a preference for nodes that already run servers of the fleet. */
export function packedAffinity(affinity: Fields, names: Names): Fields {
  const podAffinity = objectAt(affinity, 'podAffinity')
  const preferred = 'preferredDuringSchedulingIgnoredDuringExecution'
  const nearServers = {
    weight: 100,
    podAffinityTerm: {
      topologyKey: 'kubernetes.io/hostname',
      labelSelector: { matchExpressions: [{ key: names.server, operator: 'Exists' }] },
    },
  }
  return {
    ...affinity,
    podAffinity: { ...podAffinity, [preferred]: [...objectsAt(podAffinity, preferred), nearServers] },
  }
}

/**
 * Keeps the pod away from these nodes. The terms of a required node affinity are alternatives, so each of them gets the
 * requirement.
 */
export function avoidingNodes(affinity: Fields, nodes: readonly string[]): Fields {
  const nodeAffinity = objectAt(affinity, 'nodeAffinity')
  const required = 'requiredDuringSchedulingIgnoredDuringExecution'
  const terms = objectsAt(objectAt(nodeAffinity, required), 'nodeSelectorTerms')
  const others = nodes.map((node) => ({ key: 'metadata.name', operator: 'NotIn', values: [node] }))
  const nodeSelectorTerms = (terms.length > 0 ? terms : [{}]).map((term) => ({
    ...term,
    matchFields: [...objectsAt(term, 'matchFields'), ...others],
  }))
  return { ...affinity, nodeAffinity: { ...nodeAffinity, [required]: { nodeSelectorTerms } } }
}
