/**
 * Converts records to the public form of builds, servers and details that the facade, the HTTP API and Kubernetes use. Pure.
 */
import type { Build, BuildSpec, Detail, Health, Ref, Server, ServerState } from './resources.js'
import { type Counter, noData, type ValueList } from '../lifecycle/server-data.js'
import type { Decider } from '../scaling/policies.js'
import { type BuildCounts, type BuildHealth, buildHealth, readyOfDesired } from './build-status.js'

export const defaultApiGroup = 'mps.gamekeeper.com'

/** Response header that contains the error code. The body contains only the message. */
export const errorCodeHeader = 'Gamekeeper-Error'

/** Response header of a list that is read in pages: the token of the next page. Absent from the last page. */
export const continueHeader = 'Gamekeeper-Continue'

interface Metadata {
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
    /** `"<currentStandingBy>/<spec.standingBy>"`, or with what the scaling policies have decided instead. */
    readonly currentStandingByReadyDesired: string
    /**
     * Number of servers that run the current template, and number that run an earlier one. Absent if no server runs an
     * earlier one.
     */
    readonly rollout?: { readonly updated: number; readonly outdated: number }
    /** What the scaling policies have decided. Absent if the spec has none. */
    readonly scaling?: ScalingStatus
    /** Absent if there are no conditions. */
    readonly conditions?: readonly WireCondition[]
  }
}

/** How many servers are kept ready, and why. */
export interface ScalingStatus {
  readonly standingBy: number
  readonly decider: Decider
  /** A sentence for people: what each policy asks for. */
  readonly message: string
}

export interface ServerMetadata extends Metadata {
  /** Absent if there are none, like the annotations. */
  readonly labels?: Readonly<Record<string, string>>
  readonly annotations?: Readonly<Record<string, string>>
}

export interface GameServer {
  readonly apiVersion: string
  readonly kind: 'GameServer'
  readonly metadata: ServerMetadata
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
    /** All sessions, in the order in which they began. Present only while there is more than one. `sessionID` is then the first. */
    readonly sessions?: readonly { readonly sessionID: string; readonly number: number }[]
    /** RFC 3339, like the two below. */
    readonly reachedInitializingOn?: string
    readonly reachedStandingByOn?: string
    readonly reachedActiveOn?: string
    /** When announced maintenance of the server or its node begins. RFC 3339. */
    readonly nextScheduledMaintenance?: string
    /** Until when an idle server is reserved. RFC 3339. Absent if it is not. */
    readonly reservedUntil?: string
    /** Absent if the build declares none, like the lists. */
    readonly counters?: Readonly<Record<string, Counter>>
    readonly lists?: Readonly<Record<string, ValueList>>
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

/** A public port of an allocated server. */
export interface AllocatedPort {
  /** Its name in the template of the build, or else `port_<container>`. */
  readonly name: string
  /** Its number in the template. */
  readonly container: number
  /** The number that players connect to. */
  readonly public: number
  /** The protocol that the template declares. Default: `TCP`. The port is open for both TCP and UDP in any case. */
  readonly protocol: string
}

/** What an allocation returns besides the three fields of the service description. */
export interface AllocationDetails {
  readonly server: Ref
  /** The same as `IPV4Address`. */
  readonly address: string
  /** In the order of `portsToExpose`. A port that the template declares for two protocols is listed twice. */
  readonly ports: readonly AllocatedPort[]
  /** Present if the session already had a server of another build than the requested one. This is the server's. */
  readonly buildMismatch?: BuildMismatch
}

export interface BuildMismatch {
  /** The buildID in the request. */
  readonly requested: string
  /** The buildID of the server's build. */
  readonly actual: string
}

/** The response to an allocation over HTTP. */
export interface AllocationBody {
  readonly IPV4Address: string
  /** `container:public`, comma-separated. */
  readonly Ports: string
  readonly SessionID: string
  /** Absent in a compatibility format. */
  readonly details?: AllocationDetails
}

export function gameServerBuild(
  build: Build,
  counts: BuildCounts,
  apiGroup: string,
  {
    rollout,
    scaling,
  }: {
    readonly rollout?: { readonly updated: number; readonly outdated: number }
    readonly scaling?: ScalingStatus | undefined
  } = {},
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
      currentStandingByReadyDesired: readyOfDesired(counts.standingBy, scaling?.standingBy ?? build.spec.standingBy),
      ...(rollout && rollout.outdated > 0 && { rollout }),
      ...(scaling && { scaling }),
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

/** `pendingReason` says why a server is not running yet, not ready, Unhealthy, or why it is not known who plays. */
export function gameServer(server: Server, apiGroup: string, pendingReason?: string): GameServer {
  const { labels, annotations, counters, lists } = server.data ?? noData
  const message = server.ending?.message ?? pendingReason
  return {
    apiVersion: apiVersionOf(apiGroup),
    kind: 'GameServer',
    metadata: {
      name: server.name,
      namespace: server.namespace,
      creationTimestamp: rfc3339(server.createdAt),
      ...(hasAny(labels) && { labels }),
      ...(hasAny(annotations) && { annotations }),
    },
    status: {
      state: server.state,
      health: server.health,
      publicIP: server.address ?? '',
      ports: portsOf(server),
      nodeName: server.node ?? '',
      ...(server.state === 'Active' && server.sessions[0] && { sessionID: server.sessions[0].id }),
      ...(server.state === 'Active' && server.sessions.length > 1 && { sessions: numbered(server) }),
      ...(server.reachedInitializingOn !== undefined && {
        reachedInitializingOn: rfc3339(server.reachedInitializingOn),
      }),
      ...(server.reachedStandingByOn !== undefined && { reachedStandingByOn: rfc3339(server.reachedStandingByOn) }),
      ...(server.reachedActiveOn !== undefined && { reachedActiveOn: rfc3339(server.reachedActiveOn) }),
      ...(server.maintenance && { nextScheduledMaintenance: rfc3339(server.maintenance.at) }),
      ...(server.reservedUntil !== undefined && { reservedUntil: rfc3339(server.reservedUntil) }),
      ...(hasAny(counters) && { counters }),
      ...(hasAny(lists) && { lists }),
      ...(message !== undefined && { message }),
    },
  }
}

function numbered(server: Server) {
  return server.sessions.map(({ id, number }) => ({ sessionID: id, number }))
}

function hasAny(entries: object): boolean {
  return Object.keys(entries).length > 0
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

/** `container:public`, comma-separated. */
export function portsOf(server: Server): string {
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
