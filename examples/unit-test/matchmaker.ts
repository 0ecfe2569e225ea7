/** A module of a host app: groups players and sends each full group to a game server. */
import { randomUUID } from 'node:crypto'
import { type Fleet, FleetError } from 'gamekeeper'

export interface Match {
  readonly address: string
  readonly port: number
  readonly players: readonly string[]
}

export interface MatchmakerOptions {
  readonly fleet: Pick<Fleet, 'allocate'>
  readonly buildID: string
  readonly playersPerMatch: number
}

/** Thrown if all servers are in use. */
export class ServersBusy extends Error {
  override readonly name = 'ServersBusy'
}

export class Matchmaker {
  readonly #options: MatchmakerOptions
  #gathering: { readonly players: string[]; readonly match: Promise<Match>; readonly start: () => void }

  constructor(options: MatchmakerOptions) {
    this.#options = options
    this.#gathering = this.#newGroup()
  }

  /**
   * Resolves once the player's match has a server. Rejects with `ServersBusy` if none becomes available within ten seconds.
   */
  join(player: string): Promise<Match> {
    const group = this.#gathering
    group.players.push(player)
    if (group.players.length === this.#options.playersPerMatch) {
      this.#gathering = this.#newGroup()
      group.start()
    }
    return group.match
  }

  #newGroup() {
    const players: string[] = []
    let start = () => {}
    const full = new Promise<void>((resolve) => (start = resolve))
    return { players, start, match: full.then(() => this.#startMatch(players)) }
  }

  async #startMatch(players: readonly string[]): Promise<Match> {
    const { fleet, buildID } = this.#options
    try {
      const request = { buildID, sessionID: randomUUID(), initialPlayers: players }
      const server = await fleet.allocate(request, { waitMs: 10_000 })
      return { address: server.address, port: server.port(), players }
    } catch (error) {
      if (FleetError.is(error, 'none-standing-by') || FleetError.is(error, 'max-reached')) {
        throw new ServersBusy('all servers are in use, please try again', { cause: error })
      }
      throw error
    }
  }
}
