/** Reads a node's addresses, readiness, and which pods it accepts. Pure. */
import { isIPv4 } from 'node:net'
import type { PodTemplateSpec } from '../../../src/rules/model/resources.js'
import { isObject } from '../../../src/rules/validation/problem.js'
import { objectAt, objectsAt, stringAt } from '../../../src/rules/validation/template-shape.js'
import type { Node, Taint } from './node-objects.js'

/** Where players connect: the ExternalIP, or else the InternalIP. */
export function nodeAddress(node: Node): string | undefined {
  return addressOfType(node, 'ExternalIP') ?? internalAddress(node)
}

export function internalAddress(node: Node): string | undefined {
  return addressOfType(node, 'InternalIP')
}

/** IPv4 first: the API and the games' SDKs have a field for IPv4 only. */
function addressOfType({ status }: Node, wanted: string): string | undefined {
  const found = status?.addresses?.flatMap(({ type, address }) => (type === wanted && address ? [address] : []))
  return found?.find(isIPv4) ?? found?.[0]
}

/** False when its kubelet has stopped reporting: the state of its pods is unknown. */
export function isReady({ status }: Node): boolean {
  return status?.conditions?.find(({ type }) => type === 'Ready')?.status === 'True'
}

/**
 * Whether a pod of this template may be scheduled there now, by cordon, taints and labels. Required affinities are ignored: at
 * worst a port is considered free on a node that the pod never gets.
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
