/** Follows the engine's events for this fleet's containers, and reconnects when the stream ends. */
import type { Clock } from '../../../src/contracts/clock.js'
import type { Logger } from '../../../src/contracts/logger.js'
import { isObject } from '../../../src/rules/validation/problem.js'
import type { EngineApi, OpenStream } from '../engine-api.js'
import { type Identity, identityOf } from './labels.js'
import { jsonLinesOf } from '../docker-client.js'

export interface ContainerEvent {
  readonly id: string
  readonly identity: Identity
  /**
   * `oom` means that one of its processes was killed for using too much memory, `kill` that the engine sent it a signal that ends
   * it (as it does when it shuts down, or for `docker stop`), `destroy` that it was removed.
   */
  readonly action: 'start' | 'changed' | 'oom' | 'kill' | 'destroy'
}

interface ContainerEventsDependencies {
  readonly api: EngineApi
  readonly fleet: string
  readonly filter: string
  readonly clock: Clock
  readonly logger: Logger
  readonly onEvent: (event: ContainerEvent) => void
  /** Called after every connect, because events may have been lost before it. */
  readonly onConnect: () => void
}

const actions: ReadonlyMap<string, ContainerEvent['action']> = new Map([
  ...(['start', 'oom', 'kill', 'destroy'] as const).map((action) => [action, action] as const),
  ...['die', 'pause', 'unpause', 'restart'].map((action) => [action, 'changed'] as const),
])
/** SIGINT, SIGQUIT and SIGTERM: engines stop containers by one of them. Others, such as SIGHUP, only tell the game something. */
const endingSignals: ReadonlySet<string> = new Set(['2', '3', '15'])
const backoffInitialMs = 100
const backoffMaxMs = 5_000

export class ContainerEvents {
  readonly #deps: ContainerEventsDependencies
  #open: OpenStream | undefined
  #wake = () => {}
  #stopped = false
  /**
   * Time of the last event, in seconds of the engine's time. Reconnecting from this time may repeat events but loses none.
   */
  #since: number | undefined
  readonly #done: Promise<void>

  constructor(deps: ContainerEventsDependencies) {
    this.#deps = deps
    this.#done = this.#run()
  }

  /** Call after another call has timed out: this stream may be dead too, without having ended. */
  reconnect(): void {
    this.#open?.stop()
  }

  async stop(): Promise<void> {
    this.#stopped = true
    this.#open?.stop()
    this.#wake()
    await this.#done
  }

  /** Never rejects. */
  async #run(): Promise<void> {
    const { api, filter, clock, logger, onConnect } = this.#deps
    let backoffMs = backoffInitialMs
    while (!this.#stopped) {
      try {
        this.#open = await api.events([filter], this.#since)
        if (this.#isStopped()) this.#open.stop()
        else onConnect()
        backoffMs = backoffInitialMs
        for await (const line of jsonLinesOf(this.#open.stream)) this.#onLine(line)
        logger.debug({}, 'Docker event stream ended; reconnecting')
      } catch (error) {
        if (!this.#isStopped()) logger.debug({ err: error }, 'Docker event stream failed; reconnecting')
      }
      this.#open = undefined
      if (this.#isStopped()) return
      await this.#sleep(clock, backoffMs)
      backoffMs = Math.min(2 * backoffMs, backoffMaxMs)
    }
  }

  /** A method rather than a field access, because TypeScript assumes that the field does not change across an await. */
  #isStopped(): boolean {
    return this.#stopped
  }

  #onLine(line: unknown): void {
    if (!isObject(line) || !isObject(line['Actor'])) return
    const { time, Action: name, Actor: actor } = line
    if (typeof time === 'number') this.#since = time
    const { ID: id, Attributes: labels } = actor
    const identity = identityOf(this.#deps.fleet, labels)
    const action = typeof name === 'string' ? actions.get(name) : undefined
    if (typeof id !== 'string' || !action || !identity) return
    if (action === 'kill' && !endingSignals.has(String(isObject(labels) ? labels['signal'] : ''))) return
    this.#deps.onEvent({ id, identity, action })
  }

  async #sleep(clock: Clock, ms: number): Promise<void> {
    let cancel = () => {}
    await new Promise<void>((resolve) => {
      this.#wake = resolve
      cancel = clock.after(ms, resolve)
    })
    cancel()
    this.#wake = () => {}
  }
}
