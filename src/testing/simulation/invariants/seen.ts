/** What a fleet says of itself at one moment. */
import type { Fleet } from '../../../contracts/fleet.js'
import { keyOf } from '../../../rules/model/resources.js'
import type { GameServer, GameServerBuild } from '../../../rules/model/wire.js'
import type { Host } from '../host.js'

export interface Seen {
  readonly host: Host
  readonly builds: readonly GameServerBuild[]
  readonly servers: ReadonlyMap<string, GameServer>
}

/** Nothing while it does not lead. */
export async function look(host: Host, fleet: Fleet): Promise<Seen | undefined> {
  try {
    const [builds, servers] = await Promise.all([fleet.builds.list(), fleet.servers.list()])
    return { host, builds, servers: new Map(servers.map((server) => [keyOf(server.metadata), server])) }
  } catch {
    // It does not lead, or is closed: the next leader will be looked at.
    return undefined
  }
}

export function buildNameOf(server: GameServer): string {
  return server.metadata.name.slice(0, server.metadata.name.lastIndexOf('-'))
}

/** Written by hand, two builds may claim one buildID. */
export function isDisputed({ spec }: GameServerBuild, builds: readonly GameServerBuild[]): boolean {
  return builds.filter((other) => other.spec.buildID === spec.buildID).length > 1
}

export function isDraining({ status }: GameServerBuild): boolean {
  return status.conditions?.some(({ type }) => type === 'Draining') === true
}

/** Its spec was written by hand, and breaks a rule. */
export function isInvalid({ status }: GameServerBuild): boolean {
  return status.conditions?.some(({ type }) => type === 'Invalid') === true
}
