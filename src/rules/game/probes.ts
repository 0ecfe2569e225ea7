/**
 * How the fleet watches over a game that has no SDK: it asks the game from outside, and tells itself what an SDK would. The spec of a
 * build says what to ask. Pure.
 */

/** How game servers are asked who plays. All but `http` are protocols that games have for their lists of servers. */
export const queryProtocols = ['a2s', 'minecraft', 'bedrock', 'sqp'] as const
export type QueryProtocol = (typeof queryProtocols)[number]

/** The port is one of the build's portsToExpose. Default: the first. */
interface AtPort {
  readonly port?: number
}

/** Something that a game answers. Exactly one of the fields is given. */
export interface NetworkProbe {
  /** Passes if the game accepts a connection. */
  readonly tcp?: AtPort
  /** Sends a datagram of the bytes in `send`, hexadecimal. Passes if an answer begins with those in `expect`; without it, with any answer. */
  readonly udp?: AtPort & { readonly send: string; readonly expect?: string }
  /** Passes if a GET of the path is answered with a status from 200 to 299. */
  readonly http?: AtPort & { readonly path: string }
  /** Passes if the game answers the query. */
  readonly query?: AtPort & { readonly protocol: QueryProtocol }
}

/** How to learn who plays: by a query, or by a number or a list in a JSON document. Exactly one of the fields is given. */
export interface PlayersProbe {
  readonly query?: AtPort & { readonly protocol: QueryProtocol }
  /** `field`: where the number of players, or the list of their names, is in the answer: names and indexes with dots between them. */
  readonly http?: AtPort & { readonly path: string; readonly field: string }
}

/** Who plays. Not every game names its players, or all of them. */
export interface PlayersReport {
  readonly count: number
  /** At most `count`. */
  readonly names: readonly string[]
}
