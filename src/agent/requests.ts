/** Types of the requests that reach the agent. */
import type { IncomingMessage } from 'node:http'

/** `prefer`: the header, if the game sent one; `waitMs`: what it says. Resolves with the leader's answer, or with undefined if there is none. */
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
