/** A build of which no server can ever run: the fleet goes on trying, but no more often than the back-off allows. */
import type { FleetLimits } from '../../../contracts/options.js'
import { pauseMs } from '../../../rules/lifecycle/backoff.js'
import type { World } from '../world.js'

const windowMs = 10 * 60_000
/** For as long one try may take. With a `backoffResetMs` below that it ends the row of failures, and nothing is to be checked. */
const longestTryMs = 30_000

export class Creations {
  /** Elapsed ms of each time that the backend was asked. */
  readonly #asked: number[] = []
  /** Elapsed ms of each election: a new leader begins with the shortest pause again. */
  readonly #fresh: number[] = []

  constructor(
    readonly world: World,
    /** Servers that the build wants at once. */
    readonly wanted: number,
    readonly limits: Pick<FleetLimits, 'backoffInitialMs' | 'backoffMaxMs' | 'backoffResetMs'>,
  ) {}

  elected(): void {
    this.#fresh.push(this.world.elapsedMs)
  }

  asked(): void {
    if (this.limits.backoffResetMs < longestTryMs) return
    const { elapsedMs } = this.world
    const from = elapsedMs - windowMs
    this.#asked.push(elapsedMs)
    while ((this.#asked[0] ?? Infinity) < from) this.#asked.shift()
    while ((this.#fresh[0] ?? Infinity) < from) this.#fresh.shift()
    const pauses = this.#shortPauses * (1 + this.#fresh.length) + windowMs / this.limits.backoffMaxMs
    // Twice as often, since a call that fails is made again, and a server that is removed by hand is replaced.
    const most = 2 * this.wanted * pauses
    if (this.#asked.length > most) {
      this.world.breach(`too many creations: ${this.#asked.length} within 10 minutes, and back-off allows ${most}`)
    }
  }

  /** Pauses until the longest is reached, and one before the first. */
  get #shortPauses(): number {
    const limits = { initialMs: this.limits.backoffInitialMs, maxMs: this.limits.backoffMaxMs }
    for (let failures = 1; ; failures++) if (pauseMs(failures, limits) >= limits.maxMs) return failures + 1
  }
}
