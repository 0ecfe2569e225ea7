/** Who made a call, for the event `Audited`. */
import type { CallOptions } from './call-options.js'

/**
 * How a caller is identified. `host`: by the host app. `game`: by the secret of its server. `token` and `certificate`: over HTTP. `anonymous`: an HTTP request without
 * authentication.
 */
export type CallerKind = 'host' | 'game' | 'token' | 'certificate' | 'anonymous'

/** Never contains a secret. */
export interface Caller {
  /** Default: `host`. */
  readonly kind?: CallerKind
  /** The token's name, the certificate's subject, or the host app's own name for the caller. 200 characters are kept. */
  readonly name?: string
  /** Where the call came from. For HTTP requests, the address of the connection's peer, which may be a proxy. */
  readonly address?: string
}

/** Options of calls that change something. */
export interface AuditedCallOptions extends CallOptions {
  /** Who makes the call. If given, the fleet emits `Audited`, unless its option `audit` is false. */
  readonly caller?: Caller
}

export type AuditedAction =
  | 'allocate'
  | 'createBuild'
  | 'applyBuild'
  | 'patchBuild'
  | 'updateBuild'
  | 'drainBuild'
  | 'resumeBuild'
  | 'deleteBuild'
  | 'updateServer'
  | 'reserveServer'
  | 'releaseServer'
  | 'drainServer'
  | 'writeStdin'
  | 'deleteServer'
  | 'endSession'
  | 'reserveSeats'
  | 'releaseSeats'
  | 'joinSession'
  | 'announceMaintenance'
  | 'withdrawMaintenance'
  | 'drainFleet'

/**
 * `done`: the call succeeded. `begun`: a drain has started. `unknown`: the call failed in a way that leaves open whether it
 * took effect. Calls that were rejected are not audited.
 */
export type AuditedOutcome = 'done' | 'begun' | 'unknown'
