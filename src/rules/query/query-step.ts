/**
 * The shape that all queries have: a step is a request, and the function that reads what comes back. Steps are immutable, and nothing here
 * sends anything: src/probes does. Pure.
 */

/** A request in a datagram, and its answers. `T` is the result of the whole query. */
export interface QueryStep<T> {
  /** May be sent again if no answer comes. */
  readonly request: Uint8Array
  /** Reads a datagram from the game's address. Never throws, whatever the datagram holds. */
  readonly read: (datagram: Uint8Array) => QueryAnswer<T>
  /** The result if this step is never answered. Absent if the query fails then. */
  readonly otherwise?: T
}

export type QueryAnswer<T> =
  | { readonly kind: 'done'; readonly result: T }
  /** The request of `step` is to be sent. */
  | { readonly kind: 'next'; readonly step: QueryStep<T> }
  /** A part of an answer. `step` reads further parts; its request has been sent already. */
  | { readonly kind: 'part'; readonly step: QueryStep<T> }
  /** Belongs to an earlier request, so it says nothing about this one. */
  | { readonly kind: 'stale' }
  /** `reason` completes "the answer …". A right one may follow. */
  | { readonly kind: 'wrong'; readonly reason: string }

/** A request on a stream, and its one answer. */
export interface StreamQuery<T> {
  readonly request: Uint8Array
  /** Reads all that has arrived. Never throws. */
  readonly read: (received: Uint8Array) => StreamAnswer<T>
}

export type StreamAnswer<T> =
  | { readonly kind: 'done'; readonly result: T }
  /** Not worth another look before so many bytes have arrived. More than have arrived. */
  | { readonly kind: 'more'; readonly bytes: number }
  | { readonly kind: 'wrong'; readonly reason: string }

export interface WrongAnswer {
  readonly kind: 'wrong'
  readonly reason: string
}

/** `reason` completes "the answer …". */
export function wrongAnswer(reason: string): WrongAnswer {
  return { kind: 'wrong', reason }
}
