/**
 * Converts records to the public form of builds, servers and details that the facade, the HTTP API and Kubernetes use. Pure.
 */
import type { Build, BuildSpec, Detail, Health, Ref, Server, ServerState } from './resources.js'
import { type BuildCounts, type BuildHealth, buildHealth, readyOfDesired } from './status.js'

export const defaultApiGroup = 'mps.gamekeeper.com'

/** Response header that contains the error code. The body contains only the message. */
export const errorCodeHeader = 'Gamekeeper-Error'

export interface Metadata {
  readonly name: string
  readonly namespace: string
  /** RFC 3339. */
  readonly creationTimestamp?: string
}

export interface WireCondition {
  readonly type: string
  readonly status: 'True'
  readonly reason: string
  readonly message: string
  /** RFC 3339. */
  readonly lastTransitionTime: string
}

export interface GameServerBuild {
  readonly apiVersion: string
  readonly kind: 'GameServerBuild'
  readonly metadata: Metadata
  readonly spec: BuildSpec
  readonly status: {
    readonly currentActive: number
    readonly currentStandingBy: number
    readonly crashesCount: number
    readonly currentPending: number
    readonly currentInitializing: number
    readonly health: BuildHealth
    /** `"<currentStandingBy>/<spec.standingBy>"`. */
    readonly currentStandingByReadyDesired: string
    /**
     * Number of servers that run the current template, and number that run an earlier one. Absent if no server runs an
     * earlier one.
     */
    readonly rollout?: { readonly updated: number; readonly outdated: number }
    /** Absent if there are no conditions. */
    readonly conditions?: readonly WireCondition[]
  }
}

export interface GameServer {
  readonly apiVersion: string
  readonly kind: 'GameServer'
  readonly metadata: Metadata
  readonly status: {
    readonly state: ServerState
    readonly health: Health
    /** Empty until known. */
    readonly publicIP: string
    /** `container:public`, comma-separated, in the order of `portsToExpose`. */
    readonly ports: string
    readonly nodeName: string
    /** Present only while the server is Active. */
    readonly sessionID?: string
    /** RFC 3339, like the two below. */
    readonly reachedInitializingOn?: string
    readonly reachedStandingByOn?: string
    readonly reachedActiveOn?: string
    /** Why the server is still Pending, or why it is Terminating. */
    readonly message?: string
  }
}

export interface GameServerDetail {
  readonly apiVersion: string
  readonly kind: 'GameServerDetail'
  readonly metadata: Metadata
  readonly spec: {
    readonly connectedPlayersCount: number
    readonly connectedPlayers: readonly string[]
  }
}

/** The detail of a build: the players on all its servers, and the detail of each server. */
export interface GameServerBuildDetail extends GameServerDetail {
  readonly items: readonly GameServerDetail[]
}

/** The result of an allocation. */
export interface Allocation {
  readonly IPV4Address: string
  /** `container:public`, comma-separated. */
  readonly Ports: string
  readonly SessionID: string
}

export function gameServerBuild(
  build: Build,
  counts: BuildCounts,
  apiGroup: string,
  generations?: { readonly updated: number; readonly outdated: number },
): GameServerBuild {
  return {
    apiVersion: apiVersionOf(apiGroup),
    kind: 'GameServerBuild',
    metadata: { name: build.name, namespace: build.namespace, creationTimestamp: rfc3339(build.createdAt) },
    spec: build.spec,
    status: {
      currentActive: counts.active,
      currentStandingBy: counts.standingBy,
      crashesCount: build.crashes,
      currentPending: counts.pending,
      currentInitializing: counts.initializing,
      health: buildHealth(build),
      currentStandingByReadyDesired: readyOfDesired(counts.standingBy, build.spec.standingBy),
      ...(generations && generations.outdated > 0 && { rollout: generations }),
      ...(build.conditions.length > 0 && {
        conditions: build.conditions.map(({ type, reason, message, since }) => ({
          type,
          status: 'True' as const,
          reason,
          message,
          lastTransitionTime: rfc3339(since),
        })),
      }),
    },
  }
}

/** `pendingReason` says why a Pending server is not running yet, if known. */
export function gameServer(server: Server, apiGroup: string, pendingReason?: string): GameServer {
  const message = server.ending?.message ?? (server.state === 'Pending' ? pendingReason : undefined)
  return {
    apiVersion: apiVersionOf(apiGroup),
    kind: 'GameServer',
    metadata: { name: server.name, namespace: server.namespace, creationTimestamp: rfc3339(server.createdAt) },
    status: {
      state: server.state,
      health: server.health,
      publicIP: server.address ?? '',
      ports: portsOf(server),
      nodeName: server.node ?? '',
      ...(server.state === 'Active' && server.session && { sessionID: server.session.id }),
      ...(server.reachedInitializingOn !== undefined && {
        reachedInitializingOn: rfc3339(server.reachedInitializingOn),
      }),
      ...(server.reachedStandingByOn !== undefined && { reachedStandingByOn: rfc3339(server.reachedStandingByOn) }),
      ...(server.reachedActiveOn !== undefined && { reachedActiveOn: rfc3339(server.reachedActiveOn) }),
      ...(message !== undefined && { message }),
    },
  }
}

/** Returns the public detail of one server. `detail` is undefined until the first player has connected. */
export function gameServerDetail(ref: Ref, detail: Detail | undefined, apiGroup: string): GameServerDetail {
  const players = detail?.players ?? []
  return {
    apiVersion: apiVersionOf(apiGroup),
    kind: 'GameServerDetail',
    metadata: { name: ref.name, namespace: ref.namespace },
    spec: { connectedPlayersCount: players.length, connectedPlayers: players },
  }
}

export function gameServerBuildDetail(
  build: Ref,
  items: readonly GameServerDetail[],
  apiGroup: string,
): GameServerBuildDetail {
  const players = items.flatMap((item) => item.spec.connectedPlayers)
  return {
    apiVersion: apiVersionOf(apiGroup),
    kind: 'GameServerDetail',
    metadata: { name: build.name, namespace: build.namespace },
    spec: { connectedPlayersCount: players.length, connectedPlayers: players },
    items,
  }
}

export function allocationOf(server: Server): Allocation {
  return { IPV4Address: server.address ?? '', Ports: portsOf(server), SessionID: server.session?.id ?? '' }
}

function portsOf(server: Server): string {
  let text = ''
  for (const port of server.ports ?? []) text += `${text && ','}${port.container}:${port.public}`
  return text
}

function apiVersionOf(apiGroup: string): string {
  return `${apiGroup}/v1alpha1`
}

function rfc3339(ms: number): string {
  return new Date(ms).toISOString()
}
