/** A request as handlers see it. `NodeExchange` reads it from `node:http`, `WebExchange` from a web-standard Request. */
import type { HttpResponse } from './http-response.js'

/** The part of a request that the host's hooks see: its head and its origin, never its body. */
export interface ApiRequest {
  readonly method: string
  /** As sent, below the prefix at which the routes are mounted, without the query. Percent-encoding is kept. */
  readonly path: string
  /** The first query parameter of that name, decoded. */
  query(name: string): string | undefined
  /** The decoded path segment at `:name` of the pattern: `namespace`, `name`. */
  param(name: string): string
  /** `name` in lower case. */
  header(name: string): string | undefined
  /** The peer of the connection, which may be a proxy. Undefined where the runtime does not expose it. */
  readonly remoteAddress: string | undefined
  /** The verified client certificate. Undefined without one, and where TLS ends elsewhere. */
  clientCertificate(): ClientCertificate | undefined
}

export interface ClientCertificate {
  /** The common name of its subject. */
  readonly commonName: string | undefined
  /** SHA-256, as pairs of hexadecimal digits separated by colons. */
  readonly fingerprint: string
}

export interface Exchange extends ApiRequest {
  /** Reads the body; call it once. Rejects with an HttpError 413 if it is longer than `maxBytes`. */
  body(maxBytes: number): Promise<Uint8Array>
  /** Aborts when the client disconnects. */
  signal(): AbortSignal
}

export type Handler = (exchange: Exchange) => Promise<HttpResponse>
