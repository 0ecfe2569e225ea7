/** Notices, while a request is carried out or held, that another host leads. */
import { systemClock } from '../../contracts/clock.js'
import type { LeaderLink } from '../../contracts/elector.js'

/** A leader that steps down still answers what it has begun. */
const graceMs = 1_000

export class LeaderChange {
  /** Aborts when the caller has gone, or a second after the host that was asked has stopped to lead. */
  readonly signal: AbortSignal
  readonly #aborter = new AbortController()
  readonly #unfollow: () => void
  readonly #gone: AbortSignal
  /** Nobody may read a stream whose caller has gone, so that nothing else would release this. */
  readonly #onGone = () => {
    this.#aborter.abort(this.#gone.reason)
    this.release()
  }
  #cancelGrace = () => {}
  #hasChanged = false
  #wake = () => {}

  /** `asked`: the address of the leader, or undefined if this host leads. */
  constructor(link: LeaderLink, asked: string | undefined, gone: AbortSignal) {
    this.signal = this.#aborter.signal
    this.#gone = gone
    this.#unfollow = link.follow(() => {
      this.#hasChanged = true
      this.#wake()
      this.#cancelGrace()
      const leads = asked === undefined ? link.leads() : link.leader() === asked
      if (!leads)
        this.#cancelGrace = systemClock.after(graceMs, () => this.#aborter.abort(new Error('another host leads')))
    })
    if (gone.aborted) this.#onGone()
    else gone.addEventListener('abort', this.#onGone)
  }

  /** Resolves when another host leads, after `ms`, or when the caller has gone or this host closes. */
  async within(ms: number, closing: AbortSignal): Promise<void> {
    if (this.#hasChanged || this.#gone.aborted || closing.aborted) return
    let cancel = () => {}
    let wake = () => {}
    await new Promise<void>((resolve) => {
      wake = resolve
      this.#wake = resolve
      cancel = systemClock.after(ms, resolve)
      this.#gone.addEventListener('abort', wake)
      closing.addEventListener('abort', wake)
    })
    cancel()
    this.#gone.removeEventListener('abort', wake)
    closing.removeEventListener('abort', wake)
  }

  abort(reason?: Error): void {
    this.#aborter.abort(reason)
  }

  release(): void {
    this.#unfollow()
    this.#cancelGrace()
    this.#gone.removeEventListener('abort', this.#onGone)
  }
}
