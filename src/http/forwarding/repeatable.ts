/** A request whose body can be read again: if this host stops to lead while it carries the request out, it forwards it. */
import type { Caller } from '../../contracts/audit.js'
import type { ClientCertificate, Exchange, Identity } from '../core/exchange.js'

export class RepeatableExchange implements Exchange {
  readonly #exchange: Exchange
  #gone: AbortSignal | undefined
  #signal: AbortSignal | undefined
  #body: Promise<Uint8Array> | undefined
  /** In place of the query parameter. */
  #wait: string | undefined

  constructor(exchange: Exchange) {
    this.#exchange = exchange
  }

  /** Aborts when the caller has gone. */
  get gone(): AbortSignal {
    return (this.#gone ??= this.#exchange.signal())
  }

  get identity(): Identity | undefined {
    return this.#exchange.identity
  }

  get forwardedCaller(): Caller | undefined {
    return this.#exchange.forwardedCaller
  }

  get method(): string {
    return this.#exchange.method
  }

  get path(): string {
    return this.#exchange.path
  }

  get sentPath(): string | undefined {
    return this.#exchange.sentPath
  }

  get search(): string {
    const { search } = this.#exchange
    if (this.#wait === undefined) return search
    const query = new URLSearchParams(search)
    query.set('wait', this.#wait)
    return query.toString()
  }

  get remoteAddress(): string | undefined {
    return this.#exchange.remoteAddress
  }

  /** Has handlers notice, besides the caller that has gone, that another host leads. */
  useSignal(signal: AbortSignal): void {
    this.#signal = signal
  }

  /** The caller has waited already, so that this much is left. */
  limitWait(ms: number): void {
    this.#wait = (Math.max(0, ms) / 1_000).toFixed(3)
  }

  query(name: string): string | undefined {
    return name === 'wait' && this.#wait !== undefined ? this.#wait : this.#exchange.query(name)
  }

  param(name: string): string {
    return this.#exchange.param(name)
  }

  header(name: string): string | undefined {
    return this.#exchange.header(name)
  }

  clientCertificate(): ClientCertificate | undefined {
    return this.#exchange.clientCertificate()
  }

  body(maxBytes: number): Promise<Uint8Array> {
    return (this.#body ??= this.#exchange.body(maxBytes))
  }

  signal(): AbortSignal {
    return this.#signal ?? this.gone
  }
}
