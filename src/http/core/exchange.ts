/**
 * What a handler sees of a request, and what it gives for an answer. Two ways lead to the same answers: `web-exchange.ts`
 * for a Hono app of any host, `node-exchange.ts` straight over `node:http`.
 */

/** What a hook of the host sees of a request: its head, and where it comes from. */
export interface ApiRequest {
  readonly method: string
  /** Without the query; below the place where a host has mounted these routes. */
  readonly path: string
  /** The first of that name, decoded. */
  query(name: string): string | undefined
  /** What stands in the path where the pattern has `:name`, decoded: `namespace`, `name`. */
  param(name: string): string
  /** `name` in lower case. */
  header(name: string): string | undefined
  /** Of the other end of the connection, which may be a proxy. Undefined where the runtime does not tell. */
  readonly remoteAddress: string | undefined
  /** What the client has proved by its certificate. Undefined without one, and where TLS ends elsewhere. */
  clientCertificate(): ClientCertificate | undefined
}

export interface ClientCertificate {
  /** The common name of its subject. */
  readonly commonName: string | undefined
  /** SHA-256, as pairs of hexadecimal digits between colons. */
  readonly fingerprint: string
}

export interface Exchange extends ApiRequest {
  /** Once only. Rejects with a Refusal when it is longer. */
  body(maxBytes: number): Promise<Uint8Array>
  /** Fires when the client goes away. */
  signal(): AbortSignal
}

export interface Answer {
  readonly status: number
  /** JSON. Absent: no content. */
  readonly body?: string
  /** In place of a body: text that comes bit by bit, of the type that `headers` name. */
  readonly stream?: AsyncIterable<string>
  /** With a stream: a reader that takes nothing for this long is cut off. */
  readonly stallMs?: number
  readonly headers?: Readonly<Record<string, string>>
  /** The connection is not to be used again: its server is about to close, and would wait for it. */
  readonly isLast?: boolean
}

export type Handler = (exchange: Exchange) => Promise<Answer>

export const jsonType = 'application/json'

export function json(status: number, value: unknown): Answer {
  return { status, body: JSON.stringify(value) }
}

/** Every error body of every surface. */
export function failure(status: number, message: string, headers?: Readonly<Record<string, string>>): Answer {
  const body = JSON.stringify({ error: message })
  return headers === undefined ? { status, body } : { status, body, headers }
}

/** In whole seconds, which is all that the header knows. */
export function retryAfter(ms: number): Readonly<Record<string, string>> {
  return { 'Retry-After': String(Math.max(1, Math.ceil(ms / 1000))) }
}

/** What is thrown where an answer is due that is not the handler's own. */
export class HttpError extends Error {
  override readonly name = 'Refusal'
  readonly answer: Answer

  constructor(status: number, message: string, headers?: Readonly<Record<string, string>>) {
    super(message)
    this.answer = failure(status, message, headers)
  }
}
