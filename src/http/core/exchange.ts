/** A request as handlers see it. `NodeExchange` reads it from `node:http`, `WebExchange` from a web-standard Request. */
import type { Caller, CallerKind } from '../../contracts/call-options.js'
import type { HttpResponse } from './responses.js'

/** The part of a request that the host app's hooks can see: everything except the body. */
export interface ApiRequest {
  readonly method: string
  /** The path as sent, relative to the prefix at which the routes are mounted, without the query. Still percent-encoded. */
  readonly path: string
  /** Returns the first query parameter with this name, decoded. */
  query(name: string): string | undefined
  /** Returns the decoded path segment that matches `:name` in the pattern. Names are `namespace` and `name`. */
  param(name: string): string
  /** Returns a header. `name` must be in lower case. */
  header(name: string): string | undefined
  /** Address of the connection's peer, which may be a proxy. Undefined if the runtime does not expose it. */
  readonly remoteAddress: string | undefined
  /** The verified client certificate. Undefined if the client sent none, or if TLS ends at a proxy. */
  clientCertificate(): ClientCertificate | undefined
}

export interface ClientCertificate {
  /** The common name of the certificate's subject. */
  readonly commonName: string | undefined
  /** SHA-256 fingerprint, as pairs of hexadecimal digits separated by colons. */
  readonly fingerprint: string
}

/** What an `authorize` hook returns to allow a request and to name its caller in the audit. */
export interface Identity {
  /** The caller's name. Never put a secret here: the audit shows it. */
  readonly caller: string
  /** Default: `host`. */
  readonly kind?: CallerKind
}

export type Params = Readonly<Record<string, string>>

/** What is served at a path. */
export interface Match<T> {
  readonly value: T
  /** The segments that match `:names`, decoded. */
  readonly params: Params
}

export interface RequestTarget {
  /** Without the prefix at which the routes are mounted. */
  readonly path: string
  /** The query as sent, without the question mark. */
  readonly search: string
  readonly params: Params
}

export abstract class Exchange implements ApiRequest {
  readonly method: string
  readonly path: string
  /** Set by the guard if the `authorize` hook has named the caller. */
  identity: Identity | undefined
  /** Set on a request that another host has forwarded: who sent it to that host. */
  forwardedCaller: Caller | undefined
  /** Names the call, so that it can be repeated. Set by the handler of an operation that needs one, and forwarded with it. */
  callID: string | undefined
  #search: string
  readonly #params: Params
  #body: Promise<Uint8Array> | undefined
  #gone: AbortSignal | undefined
  #signal: AbortSignal | undefined

  constructor(method: string, { path, search, params }: RequestTarget) {
    this.method = method
    this.path = path
    this.#search = search
    this.#params = params
  }

  /**
   * The path as the client sent it, with the prefix at which the routes are mounted. Undefined if the framework does not
   * say.
   */
  abstract get sentPath(): string | undefined
  abstract get remoteAddress(): string | undefined
  abstract header(name: string): string | undefined
  abstract clientCertificate(): ClientCertificate | undefined
  protected abstract readBody(maxBytes: number): Promise<Uint8Array>
  /** Returns a signal that aborts when the client disconnects. */
  protected abstract watchClient(): AbortSignal

  /** The query as sent, without the question mark. */
  get search(): string {
    return this.#search
  }

  query(name: string): string | undefined {
    return this.#search === '' ? undefined : (new URLSearchParams(this.#search).get(name) ?? undefined)
  }

  param(name: string): string {
    return this.#params[name] ?? ''
  }

  /** Resolves with the same body each time. Rejects with an HttpError 413 if it is longer than `maxBytes`. */
  body(maxBytes: number): Promise<Uint8Array> {
    return (this.#body ??= this.readBody(maxBytes))
  }

  /** Aborts when the client disconnects. */
  get gone(): AbortSignal {
    return (this.#gone ??= this.watchClient())
  }

  /** Aborts when the handler has to stop: when the client disconnects, unless another signal is in use. */
  get signal(): AbortSignal {
    return this.#signal ?? this.gone
  }

  useSignal(signal: AbortSignal): void {
    this.#signal = signal
  }

  /** The caller has waited already, so that this much is left of `?wait=`. */
  limitWait(ms: number): void {
    const query = new URLSearchParams(this.#search)
    query.set('wait', (Math.max(0, ms) / 1_000).toFixed(3))
    this.#search = query.toString()
  }
}

/** The header with which a caller names a call that it may repeat. */
export const callIDHeader = 'idempotency-key'

export type Handler = (exchange: Exchange) => Promise<HttpResponse>

/**
 * Who sent a request, for the audit: the identity that `authorize` returned, else the client certificate. The address is that of the
 * connection's peer. Of a forwarded request, what the host that received it has found out.
 */
export function callerOf(exchange: Exchange): Caller {
  if (exchange.forwardedCaller !== undefined) return exchange.forwardedCaller
  const { identity, remoteAddress: address } = exchange
  if (identity !== undefined) return caller(identity.kind ?? 'host', identity.caller, address)
  const certificate = exchange.clientCertificate()
  if (certificate !== undefined)
    return caller('certificate', certificate.commonName ?? certificate.fingerprint, address)
  return address === undefined ? { kind: 'anonymous' } : { kind: 'anonymous', address }
}

function caller(kind: CallerKind, name: string, address: string | undefined): Caller {
  return address === undefined ? { kind, name } : { kind, name, address }
}
