/** Ends a run: asks it to go, waits for its grace period, kills it. Resolves when nothing of it runs any more. */
import type { Clock } from '../../src/contracts/clock.js'
import { FleetError } from '../../src/contracts/errors.js'
import type { GameProcess } from './game-process.js'

const firstPauseMs = 10
const longestPauseMs = 250

/** One for all callers that want the same instance ended. */
export class Ending {
  readonly #clock: Clock
  #deadline: number
  #wake = () => {}
  #closed = false

  constructor(clock: Clock, graceMs: number) {
    this.#clock = clock
    this.#deadline = clock.elapsed() + graceMs
  }

  /** A further caller with less patience. Never lengthens. */
  shorten(graceMs: number): void {
    this.#deadline = Math.min(this.#deadline, this.#clock.elapsed() + graceMs)
    this.#wake()
  }

  /** Something has happened to the process: look now. */
  wake(): void {
    this.#wake()
  }

  /** The host lets go: `run` rejects with `closed`, and the process is left as it is. */
  close(): void {
    this.#closed = true
    this.#wake()
  }

  async run(game: GameProcess): Promise<void> {
    let asked = false
    let killing = false
    let pauseMs = firstPauseMs
    while (!game.isGone()) {
      if (this.#closed) throw new FleetError('closed', 'the backend was closed before the instance was gone')
      const remainingMs = this.#remainingMs()
      if (remainingMs <= 0) {
        // Again at every look: a process may have been born between two of them.
        game.signal('SIGKILL')
        if (!killing) pauseMs = firstPauseMs
        killing = true
      } else if (!asked && game.hearsSignals) {
        game.signal('SIGTERM')
        asked = true
      }
      const longestMs = killing ? longestPauseMs : Math.min(remainingMs, asked ? longestPauseMs : firstPauseMs)
      await this.#sleep(Math.min(pauseMs, longestMs))
      pauseMs = Math.min(pauseMs * 2, longestPauseMs)
    }
  }

  #remainingMs(): number {
    return this.#deadline - this.#clock.elapsed()
  }

  async #sleep(ms: number): Promise<void> {
    let cancel = () => {}
    await new Promise<void>((resolve) => {
      this.#wake = resolve
      cancel = this.#clock.after(ms, resolve)
    })
    this.#wake = () => {}
    cancel()
  }
}
