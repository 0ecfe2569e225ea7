/** The labels that identify the containers of a fleet. Pure. */
import { readInstanceNumber } from '../../../src/rules/game/sdk-config.js'
import type { PortPair, Ref } from '../../../src/rules/model/resources.js'
import { isObject } from '../../../src/rules/validation/problem.js'
import { formatPortPairs, parsePortPairs } from '../../shared/public-ports.js'
import { dottedName } from '../../shared/backend-lifecycle.js'

export interface Identity {
  readonly ref: Ref
  readonly uid: string
  /** The address that players connect to. */
  readonly address: string
  /** `serverInstanceNumber` of the game's SDK configuration: unique among the fleet's containers on this engine. */
  readonly instanceNumber: number
  /** In the same order as `portsToExpose`. */
  readonly ports: readonly PortPair[]
}

/** Reserved prefix: labels in the options must not start with it. */
export const labelPrefix = 'gamekeeper.'

const fleetLabel = `${labelPrefix}fleet`
const names = {
  namespace: `${labelPrefix}namespace`,
  server: `${labelPrefix}server`,
  uid: `${labelPrefix}uid`,
  build: `${labelPrefix}build`,
  address: `${labelPrefix}address`,
  ports: `${labelPrefix}ports`,
  instanceNumber: `${labelPrefix}instance-number`,
} as const

/** Label filter for the containers of one fleet. */
export function fleetFilter(fleet: string): string {
  return `${fleetLabel}=${fleet}`
}

/** Label filters that match a server's container even if it was renamed. */
export function serverFilter(fleet: string, { namespace, name }: Ref): readonly string[] {
  return [fleetFilter(fleet), `${names.namespace}=${namespace}`, `${names.server}=${name}`]
}

export function labelsOf(fleet: string, build: string, identity: Identity): Readonly<Record<string, string>> {
  const { ref, uid, address, ports, instanceNumber } = identity
  return {
    [fleetLabel]: fleet,
    [names.namespace]: ref.namespace,
    [names.server]: ref.name,
    [names.uid]: uid,
    [names.build]: build,
    [names.address]: address,
    [names.ports]: formatPortPairs(ports),
    [names.instanceNumber]: String(instanceNumber),
  }
}

/** Returns undefined if the container does not belong to this fleet. */
export function identityOf(fleet: string, labels: unknown): Identity | undefined {
  if (!isObject(labels) || labels[fleetLabel] !== fleet) return undefined
  const namespace = labels[names.namespace]
  const name = labels[names.server]
  const uid = labels[names.uid]
  const address = labels[names.address]
  const ports = parsePortPairs(labels[names.ports])
  const instanceNumber = readInstanceNumber(labels[names.instanceNumber])
  if (typeof namespace !== 'string' || typeof name !== 'string' || typeof uid !== 'string') return undefined
  if (typeof address !== 'string' || !ports || instanceNumber === undefined) return undefined
  return { ref: { namespace, name }, uid, address, instanceNumber, ports }
}

/** Unique for each server in a fleet, so that the engine itself rejects a second container for the same server. */
export function containerName(fleet: string, ref: Ref): string {
  return `gamekeeper-${fleet}-${dottedName(ref)}`
}
