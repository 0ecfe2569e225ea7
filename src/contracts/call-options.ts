/** The options that calls accept as their last argument, who makes a call, and lists that are read in pages. */

/** The last argument of every asynchronous call. */
export interface CallOptions {
  /** Aborts the call, which then rejects with `aborted`. A write that has already been sent may still take effect. */
  readonly signal?: AbortSignal
}

export interface PageOptions extends CallOptions {
  /** Maximum number of items in the page: 1 to 10,000. Default 500. */
  readonly limit?: number
  /** What the page before returned as `continue`. Default: the first page. */
  readonly continue?: string | undefined
}

/**
 * Part of a list. Items are ordered by creation time. An item that exists while a caller reads all pages is on exactly one of
 * them, even if other items are created or deleted in the meantime.
 */
export interface Page<T> {
  readonly items: readonly T[]
  /** Returns the next page. Absent from the last page. Stays valid if this host restarts or another one leads. */
  readonly continue?: string
}

/** Options of calls that read a whole list page by page. `limit` is the size of a page. */
export type AllOptions = Omit<PageOptions, 'continue'>

/** Yields the items of all pages. `read` gets the `continue` of the page before. */
export async function* itemsOf<T>(read: (next: string | undefined) => Promise<Page<T>>): AsyncGenerator<T, void> {
  let next: string | undefined
  do {
    const page = await read(next)
    yield* page.items
    next = page.continue
  } while (next !== undefined)
}

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
