/**
 * Elector: decides which of the hosts that share a store is the leader. Only the leader reconciles and allocates. A host whose
 * store is not shared is always the leader. LeaderLink: how the other hosts pass calls on to the leader.
 */
export interface ElectionListener {
  /** This host has become the leader. */
  elected(): void
  /** This host is no longer the leader and must stop acting immediately. `leader` names the new leader, if known. */
  lost(leader?: string): void
  /**
   * This host can neither lead nor find out who does, such as without valid credentials. May be called again; undefined once it can.
   * After a minute, this host reports that it cannot lead.
   */
  blocked?(cause: string | undefined): void
}

/** What the leader makes known to the other hosts. */
export interface Candidacy {
  /** `host:port` at which this host receives calls that other hosts forward. */
  readonly address?: string
}

export interface Elector {
  /**
   * Takes part in the election until the returned function is called. That function also gives up leadership. While this host leads,
   * `follow` reports the address of its candidacy on every host.
   */
  run(listener: ElectionListener, candidacy?: Candidacy): () => Promise<void>
  /**
   * Reports the address in the leader's candidacy until the returned function is called: once it is known, and whenever it changes.
   * Undefined means that no host leads, or that the leader has no address. Leaving the election does not end the reports. Omit this
   * method if hosts cannot forward calls to the leader.
   */
  follow?(changed: (address: string | undefined) => void): () => void
}

export const alwaysLeader: Elector = Object.freeze({
  run(listener: ElectionListener) {
    listener.elected()
    return () => Promise.resolve()
  },
})

/** Options for hosts that share a store: one that does not lead forwards HTTP requests to the leader. */
export interface ForwardingOptions {
  /**
   * `host:port` at which the fleet's other hosts reach this one: the address of the listener that `serve` opens with its option
   * `forwarding`.
   */
  readonly address: string
  /**
   * Shared by the hosts of one fleet, which prove themselves to each other by it: at least 16 characters. Default: a key of the store,
   * if it has one, as on Kubernetes.
   */
  readonly secret?: string
}

export interface ForwardedRequest {
  readonly method: string
  /** With the query. */
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: Uint8Array | undefined
}

export interface ForwardedResponse {
  readonly status: number
  /** As sent, without those of the connection. */
  readonly headers: Readonly<Record<string, string>>
  /** The body, as it arrives. Leaving it early closes the connection. */
  readonly text: AsyncIterable<string>
  /** Whether the body's length is known, so that it ends soon. */
  readonly isWhole: boolean
}

/** Of the listener for forwarded calls: 204 if the host leads. */
export const leadsPath = '/leads'

/** `unsent`: the leader has not received it. `unknown`: it was sent, so it may have been carried out. */
export type Sent =
  { readonly response: ForwardedResponse } | { readonly failure: 'unsent' | 'unknown'; readonly error: unknown }

/** A fleet's connection to the host that leads. */
export interface LeaderLink {
  /** How long a request without `wait` is held while the leader cannot be reached. Default: 1 s for matchmakers, 5 s for others. */
  readonly holdMs?: number | undefined
  /**
   * Proves to another host that this one belongs to the fleet. Derived from the shared secret for this purpose alone. Undefined while the
   * secret is not known.
   */
  key(): Uint8Array | undefined
  /** Whether this host leads and can carry out calls. */
  leads(): boolean
  /** Call when another host has sent a request to this one. */
  heard(): void
  /** Address of the leader, if it is known and is another host. */
  leader(): string | undefined
  /** Calls `changed` whenever another host leads, or this one, until the returned function is called. */
  follow(changed: () => void): () => void
  /** Sends a request to another host. Never rejects. */
  send(address: string, request: ForwardedRequest, signal: AbortSignal): Promise<Sent>
}
