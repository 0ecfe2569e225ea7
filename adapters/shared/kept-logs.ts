/**
 * Keeps the end of the logs of instances that have ended, in memory, for backends whose logs go with the instance. Bounded in bytes,
 * number and time. Lost when the host ends.
 */
import type { LogsOptions } from '../../src/contracts/backend.js'
import type { Clock } from '../../src/contracts/clock.js'
import { FleetError } from '../../src/contracts/errors.js'
import type { Logger } from '../../src/contracts/logger.js'
import { keyOf, type Ref } from '../../src/rules/model/resources.js'
import { waitAtMost } from './backend-lifecycle.js'
import type { OptionReader } from './option-reader.js'

export interface KeptLogsOptions {
  /** How long the log of a server that had a session or crashed is kept after its end, in ms, in this host's memory. 0: not at all. Default 24 h. */
  readonly logRetentionMs?: number
  /** Of each such log, the last so many bytes are kept. Default 65,536. */
  readonly keptLogBytes?: number
  /** Maximum number of logs kept from ended servers. Default 500. */
  readonly maxKeptLogs?: number
}

export const keptLogsOptionNames = [
  'logRetentionMs',
  'keptLogBytes',
  'maxKeptLogs',
] as const satisfies readonly (keyof KeptLogsOptions)[]

/** Throws `invalid`, naming the invalid option. */
export function readKeptLogsOptions(reader: OptionReader, options: KeptLogsOptions): Required<KeptLogsOptions> {
  return {
    logRetentionMs: reader.integer('logRetentionMs', options.logRetentionMs, 24 * 60 * 60 * 1000, 0),
    keptLogBytes: reader.integer('keptLogBytes', options.keptLogBytes, 64 * 1024),
    maxKeptLogs: reader.integer('maxKeptLogs', options.maxKeptLogs, 500, 0),
  }
}

interface KeptLogsDependencies {
  readonly options: Required<KeptLogsOptions>
  readonly clock: Clock
  readonly logger: Logger
  /** Of the backend. */
  readonly logs: (ref: Ref, options: LogsOptions) => AsyncIterable<string>
}

/** How long the lines that are there may take to be read before the instance is destroyed, and the rest after it. */
const readTimeoutMs = 2_000
/** Lines before these are not even read. */
const maxLines = 2_000

export class KeptLogs {
  readonly #deps: KeptLogsDependencies
  /** By key of the server, in the order in which they ended. */
  readonly #logs = new Map<string, KeptLog>()
  /** End what is being read. */
  readonly #stops = new Set<() => void>()
  /** The instances whose logs are read before they are destroyed, by key of the server. */
  readonly #waiting = new Map<string, Waiting>()
  #isClosed = false

  constructor(deps: KeptLogsDependencies) {
    this.#deps = deps
  }

  /**
   * Destroys the instance. If `isKept`, first reads what it has printed, and goes on until it has ended. Calls for the same server take effect in
   * order: a second call ends the first one's reading. Rejects as `destroy` does.
   */
  async destroy(ref: Ref, isKept: boolean, destroy: () => Promise<void>): Promise<void> {
    const { clock, options } = this.#deps
    const key = keyOf(ref)
    const waiting = this.#waiting.get(key)
    if (waiting) {
      waiting.hurry()
      await waiting.begun
      return destroy()
    }
    if (!isKept || options.logRetentionMs === 0 || options.maxKeptLogs === 0) return destroy()
    const log = new KeptLog(options.keptLogBytes, clock.elapsed() + options.logRetentionMs)
    const before = this.#reading(log, ref, { tail: maxLines })
    before.endIn(readTimeoutMs)
    let hurry = () => {}
    const hurried = new Promise<void>((resolve) => {
      hurry = resolve
    })
    // A backend may not notice at once that nobody waits any more.
    const begun = waitAtMost(clock, 2 * readTimeoutMs, Promise.race([before.done, hurried])).then(() => {
      before.stop()
      // A game may say goodbye. The log ends with the instance.
      const rest = this.#reading(log, ref, { follow: true, tail: 0 })
      const end = async () => {
        try {
          await destroy()
        } finally {
          rest.endIn(readTimeoutMs)
        }
      }
      return { ended: end() }
    })
    this.#waiting.set(key, { begun, hurry })
    const { ended } = await begun
    this.#waiting.delete(key)
    await ended
  }

  /** The lines that the server printed last, or undefined if they are not kept. */
  lines(ref: Ref, { tail = Infinity, origin = false }: LogsOptions = {}): readonly string[] | undefined {
    this.#forget()
    const lines = this.#logs.get(keyOf(ref))?.lines
    const last = tail === 0 ? lines && [] : lines?.slice(-Math.min(tail, lines.length))
    return origin ? last : last?.map((line) => line.replace(/^\S+ \S+ /, ''))
  }

  /** Resolves once all instances that wait for their logs to be read are being destroyed. */
  async close(): Promise<void> {
    this.#isClosed = true
    for (const stop of this.#stops) stop()
    this.#logs.clear()
    await Promise.all(Array.from(this.#waiting.values(), ({ begun }) => begun))
  }

  #add(ref: Ref, log: KeptLog): void {
    const key = keyOf(ref)
    this.#logs.delete(key)
    this.#logs.set(key, log)
    this.#forget()
  }

  #forget(): void {
    const { clock, options } = this.#deps
    for (const [key, { until }] of this.#logs) {
      if (this.#logs.size <= options.maxKeptLogs && until > clock.elapsed()) return
      this.#logs.delete(key)
    }
  }

  /** `done` never rejects: an instance is destroyed, whether or not its log can be read. */
  #reading(log: KeptLog, ref: Ref, options: LogsOptions): Reading {
    const { clock, logger, logs } = this.#deps
    const ending = new AbortController()
    const stop = () => ending.abort()
    let cancel = () => {}
    const read = async () => {
      try {
        for await (const line of logs(ref, { ...options, origin: true, signal: ending.signal })) log.push(line)
      } catch (error) {
        if (!FleetError.is(error, 'not-found'))
          logger.debug({ server: ref.name, err: error }, 'the log of an ending server cannot be read')
      }
      cancel()
      this.#stops.delete(stop)
      if (!log.isEmpty && !this.#isClosed) this.#add(ref, log)
    }
    this.#stops.add(stop)
    const done = read()
    const endIn = (ms: number) => {
      if (this.#stops.has(stop)) cancel = clock.after(ms, stop)
    }
    return { done, endIn, stop }
  }
}

interface Reading {
  readonly done: Promise<void>
  endIn(ms: number): void
  stop(): void
}

interface Waiting {
  /** Resolves once the instance is being destroyed. */
  readonly begun: Promise<unknown>
  /** Ends the reading. */
  hurry(): void
}

/** The last lines, up to a number of bytes. As bytes, since strings may take twice as much. */
class KeptLog {
  readonly #maxBytes: number
  readonly until: number
  readonly #lines: Buffer[] = []
  #bytes = 0

  constructor(maxBytes: number, until: number) {
    this.#maxBytes = maxBytes
    this.until = until
  }

  get isEmpty(): boolean {
    return this.#lines.length === 0
  }

  get lines(): readonly string[] {
    return this.#lines.map((line) => line.toString())
  }

  push(text: string): void {
    const line = Buffer.from(text).subarray(-this.#maxBytes)
    this.#lines.push(line)
    this.#bytes += line.length
    while (this.#bytes > this.#maxBytes || this.#lines.length > maxLines)
      this.#bytes -= this.#lines.shift()?.length ?? 0
  }
}
