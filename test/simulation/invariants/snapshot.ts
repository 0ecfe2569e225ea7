/** A consistent snapshot of the builds and servers that a fleet reports. */
import type { Fleet } from '../../../src/contracts/fleet.js'
import { keyOf } from '../../../src/rules/model/resources.js'
import type { GameServer, GameServerBuild } from '../../../src/rules/model/wire.js'
import type { Host } from '../world/host.js'

export interface FleetSnapshot {
  readonly host: Host
  readonly builds: readonly GameServerBuild[]
  readonly servers: ReadonlyMap<string, GameServer>
}

/** Resolves to undefined if the host is not the leader. */
export async function takeSnapshot(host: Host, fleet: Fleet): Promise<FleetSnapshot | undefined> {
  try {
    const [builds, servers] = await Promise.all([fleet.builds.list(), fleet.servers.list()])
    return { host, builds, servers: new Map(servers.map((server) => [keyOf(server.metadata), server])) }
  } catch {
    // The host is not the leader, or its fleet is closed.
    return undefined
  }
}

export function buildNameOf(server: GameServer): string {
  return server.metadata.name.slice(0, server.metadata.name.lastIndexOf('-'))
}

/** True if another build has the same buildID, which only an external edit can cause. */
export function hasDuplicateBuildID({ spec }: GameServerBuild, builds: readonly GameServerBuild[]): boolean {
  return builds.filter((other) => other.spec.buildID === spec.buildID).length > 1
}

/** The servers of a build that are reserved, which count like Active ones. */
export function reservedIn({ servers }: FleetSnapshot, build: string): readonly GameServer[] {
  return [...servers.values()].filter((server) => buildNameOf(server) === build && isReserved(server))
}

export function isReserved({ status }: GameServer): boolean {
  return status.reservedUntil !== undefined
}

/** True if the server can be allocated to any request, as far as its own state goes. */
export function isReady({ status }: GameServer): boolean {
  return (
    status.reservedUntil === undefined &&
    status.state === 'StandingBy' &&
    status.health !== 'Unhealthy' &&
    status.publicIP !== ''
  )
}

export function isDraining({ status }: GameServerBuild): boolean {
  return status.conditions?.some(({ type }) => type === 'Draining') === true
}

export function isInvalid({ status }: GameServerBuild): boolean {
  return status.conditions?.some(({ type }) => type === 'Invalid') === true
}
