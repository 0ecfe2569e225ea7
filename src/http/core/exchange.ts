/** A request as handlers see it. `NodeExchange` reads it from `node:http`, `WebExchange` from a web-standard Request. */
import type { Caller, CallerKind } from '../../contracts/audit.js'
import type { HttpResponse } from './http-response.js'

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

export interface Exchange extends ApiRequest {
  /**
   * The path as the client sent it, with the prefix at which the routes are mounted. Undefined if the framework does not
   * say.
   */
  readonly sentPath: string | undefined
  /** Set by the guard if the `authorize` hook has named the caller. */
  identity: Identity | undefined
  /** Set on a request that another host has forwarded: who sent it to that host. */
  forwardedCaller: Caller | undefined
  /** The query as sent, without the question mark. */
  readonly search: string
  /** Reads the body; call it once. Rejects with an HttpError 413 if it is longer than `maxBytes`. */
  body(maxBytes: number): Promise<Uint8Array>
  /** Aborts when the client disconnects. */
  signal(): AbortSignal
}

export type Handler = (exchange: Exchange) => Promise<HttpResponse>
