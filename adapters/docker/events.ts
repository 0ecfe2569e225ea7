/**
 * The engine's events of this fleet's containers, for as long as somebody listens. A stream that ends is opened again, and
 * whoever listens is told that some may be lost.
 */
import type { Clock } from '../../src/contracts/clock.js'
import { messageOf } from '../../src/contracts/errors.js'
import type { Logger } from '../../src/contracts/logger.js'
import { isObject } from '../../src/rules/validation/problem.js'
import type { EngineApi, OpenStream } from './engine-api.js'
import { type Identity, identityOf } from './labels.js'
import { jsonLinesOf } from './lines.js'

export interface ContainerEvent {
  readonly id: string
  readonly identity: Identity
  /** `destroy`: it is no more. Else it was started, or something else about it has changed. */
  readonly action: 'start' | 'changed' | 'destroy'
}

export interface EventsInput {
  readonly api: EngineApi
  readonly fleet: string
  readonly filter: string
  readonly clock: Clock
  readonly logger: Logger
  readonly onEvent: (event: ContainerEvent) => void
  /** Connected, for the first time or again. */
  readonly onOpen: () => void
}

const changes: ReadonlySet<string> = new Set(['die', 'pause', 'unpause', 'oom', 'restart'])
const firstPauseMs = 100
const longestPauseMs = 5_000

export class Events {
  readonly #input: EventsInput
  #open: OpenStream | undefined
  #wake = () => {}
  #stopped = false
  /** Of the last event, in seconds of the engine's time: what comes from then on may come twice, but nothing is left out. */
  #since: number | undefined
  readonly #done: Promise<void>

  constructor(input: EventsInput) {
    this.#input = input
    this.#done = this.#run()
  }

  /** The engine has been silent elsewhere: the stream may be dead without a word. */
  reopen(): void {
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
    const { api, filter, clock, logger, onOpen } = this.#input
    let pauseMs = firstPauseMs
    while (!this.#stopped) {
      try {
        this.#open = await api.events([filter], this.#since)
        // It may have been stopped while it was being opened.
        if (this.#isStopped()) this.#open.stop()
        else onOpen()
        pauseMs = firstPauseMs
        for await (const line of jsonLinesOf(this.#open.stream)) this.#take(line)
        logger.debug({}, 'the events of the Docker engine have ended and are asked for again')
      } catch (error) {
        if (!this.#isStopped()) logger.debug({ error: messageOf(error) }, 'the events of the Docker engine broke off')
      }
      this.#open = undefined
      if (this.#isStopped()) return
      await this.#pause(clock, pauseMs)
      pauseMs = Math.min(2 * pauseMs, longestPauseMs)
    }
  }

  /** It changes while something is awaited. */
  #isStopped(): boolean {
    return this.#stopped
  }

  #take(line: unknown): void {
    if (!isObject(line) || !isObject(line['Actor'])) return
    const { time, Action: action, Actor: actor } = line
    if (typeof time === 'number') this.#since = time
    const { ID: id, Attributes: labels } = actor
    const identity = identityOf(this.#input.fleet, labels)
    if (typeof id !== 'string' || typeof action !== 'string' || !identity) return
    if (action === 'destroy' || action === 'start') this.#input.onEvent({ id, identity, action })
    else if (changes.has(action)) this.#input.onEvent({ id, identity, action: 'changed' })
  }

  async #pause(clock: Clock, ms: number): Promise<void> {
    let cancel = () => {}
    await new Promise<void>((resolve) => {
      this.#wake = resolve
      cancel = clock.after(ms, resolve)
    })
    cancel()
    this.#wake = () => {}
  }
}
