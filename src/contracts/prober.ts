/** Prober: asks game servers that have no SDK, over the network, as players' programs do. */
import type { NetworkProbe, PlayersProbe, PlayersReport } from '../rules/game/probes.js'

/** Where this host reaches a port of the game. */
export interface ProbeAddress {
  readonly host: string
  readonly port: number
}

/** What `createFleet` uses to probe games. Answers of games are hostile input: each is bounded in size and time. */
export interface Prober {
  /**
   * Resolves if the game answers as the probe expects. Rejects with the reason if it does not within `timeoutMs`: `unavailable` if nothing was
   * heard of it, `invalid` if something else was. The address takes the place of the probe's port.
   */
  check(probe: NetworkProbe, address: ProbeAddress, timeoutMs: number): Promise<void>
  /** Resolves with who plays. Rejects as `check` does. */
  players(probe: PlayersProbe, address: ProbeAddress, timeoutMs: number): Promise<PlayersReport>
  /** Ends what is in progress, and closes sockets. */
  close(): void
}
