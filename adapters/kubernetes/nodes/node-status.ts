/** Reads a node's addresses and readiness, and decides which pods it accepts. Pure. */
import { isIPv4 } from 'node:net'
import type { PodTemplateSpec } from '../../../src/rules/model/resources.js'
import { isObject } from '../../../src/rules/validation/problem.js'
import { objectAt, objectsAt, stringAt } from '../../../src/rules/validation/template-shape.js'
import type { Node, Taint } from './node-objects.js'

/** The address that players connect to: the node's ExternalIP, or its InternalIP if it has none. */
export function nodeAddress(node: Node): string | undefined {
  return addressOfType(node, 'ExternalIP') ?? internalAddress(node)
}

export function internalAddress(node: Node): string | undefined {
  return addressOfType(node, 'InternalIP')
}

/** The node's location according to its cloud provider: region and public DNS name. */
export function nodePlatform(node: Node): { readonly region?: string; readonly fullyQualifiedDomainName?: string } {
  const labels = node.metadata?.labels
  const region = regionLabels.map((name) => labels?.[name]).find(Boolean)
  const domainName = addressOfType(node, 'ExternalDNS')
  return {
    ...(region !== undefined && { region }),
    ...(domainName !== undefined && { fullyQualifiedDomainName: domainName }),
  }
}

/** The second is used in clusters created before Kubernetes 1.17. */
const regionLabels = ['topology.kubernetes.io/region', 'failure-domain.beta.kubernetes.io/region']

/** Prefers IPv4: the API and the game SDKs only have a field for an IPv4 address. */
function addressOfType({ status }: Node, wanted: string): string | undefined {
  const found = status?.addresses?.flatMap(({ type, address }) => (type === wanted && address ? [address] : []))
  return found?.find(isIPv4) ?? found?.[0]
}

/** Whether the node is ready. If not, its kubelet may have stopped reporting, and the state of its pods is unknown. */
export function isReady({ status }: Node): boolean {
  return status?.conditions?.find(({ type }) => type === 'Ready')?.status === 'True'
}

/**
 * Whether a pod with this template can currently be scheduled to the node, judging by cordon, taints and node selector.
 * Required affinities are ignored: at worst, a port counts as free because of a node that never runs the pod.
 */
export function acceptsPod({ metadata, spec = {} }: Node, template: PodTemplateSpec): boolean {
  if (spec.unschedulable) return false
  const pod = objectAt(template, 'spec')
  const { name, labels = {} } = metadata ?? {}
  const pinned = stringAt(pod, 'nodeName')
  if (pinned !== undefined && pinned !== name) return false
  const selector = Object.entries(objectAt(pod, 'nodeSelector'))
  if (selector.some(([label, value]) => labels[label] !== value)) return false
  const tolerations = objectsAt(pod, 'tolerations')
  const repelling = (spec.taints ?? []).filter(({ effect }) => effect !== 'PreferNoSchedule')
  return repelling.every((taint) => tolerations.some((toleration) => tolerates(toleration, taint)))
}

function tolerates(toleration: unknown, { key = '', value = '', effect = '' }: Taint): boolean {
  if (!isObject(toleration)) return false
  const read = (name: string) => stringAt(toleration, name) ?? ''
  if (read('effect') !== '' && read('effect') !== effect) return false
  if (read('key') === '') return read('operator') === 'Exists'
  return read('key') === key && (read('operator') === 'Exists' || read('value') === value)
}
