/** The fields of a Node object that this adapter reads. Pure. */
import {
  type Condition,
  conditionsOfTypes,
  hasObjectShape,
  type ObjectMeta,
  type Optional,
} from '../client/api-shapes.js'

export type Taint = Optional<{ key: string; value: string; effect: string }>

export type Node = Optional<{
  metadata: ObjectMeta
  spec: Optional<{ unschedulable: boolean; taints: readonly Taint[] }>
  status: Optional<{
    addresses: readonly Optional<{ type: string; address: string }>[]
    conditions: readonly Condition[]
  }>
}>

export function nodeIn(value: unknown): Node | undefined {
  if (!isNode(value)) return undefined
  const { metadata = {}, spec = {}, status = {} } = value
  return {
    metadata: { name: metadata.name, labels: metadata.labels },
    spec: { unschedulable: spec.unschedulable, taints: spec.taints },
    status: { addresses: status.addresses, conditions: conditionsOfTypes(status.conditions, ['Ready']) },
  }
}

function isNode(value: unknown): value is Node {
  return hasObjectShape(value)
}
