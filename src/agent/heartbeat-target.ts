/** Types of the requests that reach the agent, and of the fleet that answers them. */
import type { IncomingMessage } from 'node:http'
import type { OwnAllocation } from '../contracts/sessions.js'
import type { Heartbeat, HeartbeatAnswer, ParkedHeartbeat } from '../rules/game/heartbeat.js'
import type { ServerData, ServerDataUpdate } from '../rules/lifecycle/server-data.js'
import type { OwnAllocationRequest } from '../rules/model/allocation-request.js'

/** The part of a fleet that answers games. None of it is optional, so that games can do the same through every agent. */
export interface HeartbeatTarget {
  /** See `Fleet.heartbeat`. */
  heartbeat(sessionHostId: string, heartbeat: Heartbeat): HeartbeatAnswer
  /**
   * See `Fleet.knowsServer`. Called before the body is read: of a heartbeat from a caller that is no server, only the start is read.
   */
  knowsServer(sessionHostId: string): boolean
  /** See `Fleet.parkHeartbeat`. Undefined: the heartbeat is answered at once. */
  parkHeartbeat(sessionHostId: string, parked: ParkedHeartbeat): (() => void) | undefined
  /** See `Fleet.updateOwnData`. */
  updateOwnData(sessionHostId: string, change: ServerDataUpdate): Promise<ServerData>
  /** See `Fleet.allocateOwnServer`. */
  allocateOwnServer(sessionHostId: string, request: OwnAllocationRequest): Promise<OwnAllocation>
}

/** What `createFleet` builds, for its own agent and as a part of the fleet: what an agent needs, and the way to the leader. */
export interface AgentTarget extends HeartbeatTarget {
  /** Passes a request on while another host leads. Undefined if the fleet forwards none. */
  readonly forwardHeartbeat: ForwardHeartbeat | undefined
}

/**
 * `prefer`: the header, if the game sent one; `waitMs`: what it says. Returns undefined if this host answers the request. Resolves with the
 * leader's answer, or with undefined if there is none. Never rejects.
 */
export type ForwardHeartbeat = (
  sessionHostId: string,
  body: string,
  call: {
    readonly prefer: string | undefined
    readonly waitMs: number
    readonly signal: AbortSignal
    /** What follows the id in the path. Default: nothing, for a heartbeat. */
    readonly suffix?: string
  },
) => Promise<{ readonly status: number; readonly text: string } | undefined> | undefined

/** With a mount path, Express rewrites `url` and keeps the original in `originalUrl`. A body parser sets `body`. */
export interface MountedRequest extends IncomingMessage {
  readonly originalUrl?: string
  readonly body?: unknown
}
