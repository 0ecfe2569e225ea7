/** What a node says of itself: where it is reached, and which pods may come to it. Pure. */
import { isIPv4 } from 'node:net'
import type { Node, Taint } from '../pods/pod-objects.js'
import { isObject } from '../../../src/rules/validation/problem.js'
import type { PodTemplateSpec } from '../../../src/rules/model/resources.js'
import { objectAt, objectsAt, stringAt } from '../../../src/rules/validation/template-shape.js'

/** Where players connect: the address that the world knows, else the one that the cluster knows. */
export function addressOf(node: Node): string | undefined {
  return addressOfType(node, 'ExternalIP') ?? internalAddressOf(node)
}

export function internalAddressOf(node: Node): string | undefined {
  return addressOfType(node, 'InternalIP')
}

/** Of several the first of IPv4: what players and the SDKs of games are told has a field for that alone. */
function addressOfType({ status }: Node, wanted: string): string | undefined {
  const found = status?.addresses?.flatMap(({ type, address }) => (type === wanted && address ? [address] : []))
  return found?.find(isIPv4) ?? found?.[0]
}

/** False when nobody knows what becomes of its pods. */
export function answers({ status }: Node): boolean {
  return status?.conditions?.find(({ type }) => type === 'Ready')?.status === 'True'
}

/**
 * Whether a pod of this template may be put there now, as far as cordons, taints, and labels say. Required affinities are not
 * read: at worst a port is thought free on a node that the pod never comes to.
 */
export function accepts({ metadata, spec = {} }: Node, template: PodTemplateSpec): boolean {
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
