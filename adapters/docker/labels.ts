/** What a container's labels say of it: whose it is, which server, and what was told to it. Pure. */
import { isObject } from '../../src/rules/validation/problem.js'
import { isPort } from '../../src/rules/model/ports.js'
import type { PortPair, Ref } from '../../src/rules/model/resources.js'

export interface Identity {
  readonly ref: Ref
  readonly uid: string
  /** Where players connect. */
  readonly address: string
  /** In the order of `portsToExpose`. */
  readonly ports: readonly PortPair[]
}

/** Hosts' own labels may not begin so. */
export const labelPrefix = 'gamekeeper.'

const fleetLabel = `${labelPrefix}fleet`
const names = {
  namespace: `${labelPrefix}namespace`,
  server: `${labelPrefix}server`,
  uid: `${labelPrefix}uid`,
  build: `${labelPrefix}build`,
  address: `${labelPrefix}address`,
  ports: `${labelPrefix}ports`,
} as const

/** What the engine filters by, so that no container of anybody else's is ever seen. */
export function fleetFilter(fleet: string): string {
  return `${fleetLabel}=${fleet}`
}

/** What the engine filters by to find one server, by whatever name its container goes. */
export function serverFilter(fleet: string, { namespace, name }: Ref): readonly string[] {
  return [fleetFilter(fleet), `${names.namespace}=${namespace}`, `${names.server}=${name}`]
}

export function labelsOf(fleet: string, build: string, identity: Identity): Readonly<Record<string, string>> {
  const { ref, uid, address, ports } = identity
  return {
    [fleetLabel]: fleet,
    [names.namespace]: ref.namespace,
    [names.server]: ref.name,
    [names.uid]: uid,
    [names.build]: build,
    [names.address]: address,
    [names.ports]: ports.map((port) => `${port.container}:${port.public}`).join(','),
  }
}

/** Undefined when the labels are not those of a container of this fleet. */
export function identityOf(fleet: string, labels: unknown): Identity | undefined {
  if (!isObject(labels) || labels[fleetLabel] !== fleet) return undefined
  const namespace = labels[names.namespace]
  const name = labels[names.server]
  const uid = labels[names.uid]
  const address = labels[names.address]
  const ports = readPorts(labels[names.ports])
  if (typeof namespace !== 'string' || typeof name !== 'string' || typeof uid !== 'string') return undefined
  if (typeof address !== 'string' || !ports) return undefined
  return { ref: { namespace, name }, uid, address, ports }
}

function readPorts(text: unknown): readonly PortPair[] | undefined {
  if (typeof text !== 'string') return undefined
  const pairs = text === '' ? [] : text.split(',').map((pair) => pair.split(':').map(Number))
  const ports = pairs.map(([container, number]) => ({ container: container ?? 0, public: number ?? 0 }))
  return ports.every((port) => isPort(port.container) && isPort(port.public)) ? ports : undefined
}

/** One name for each server of a fleet, so that the engine itself refuses a second container for it. */
export function containerName(fleet: string, ref: Ref): string {
  return `gamekeeper-${fleet}-${ref.namespace}.${ref.name}`
}
