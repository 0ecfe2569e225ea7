/**
 * The kernel of a simulation run: one event queue in virtual time, one source of randomness, and a bounded history.
 * Everything in the simulation runs as an event in this queue, so the seed determines the run.
 */
import { seededRandom, TimerHeap } from '../../../src/testing/virtual-clock.js'
import { Fingerprint } from './fingerprint.js'
import { type ClockChange, clockChanges } from './time-zones.js'
import { isError } from '../../../src/rules/model/values.js'

/** Reports that an invariant was violated. */
export class Violation extends Error {}

export class World {
  readonly #timers = new TimerHeap()
  readonly #random: () => number
  #draws = 0
  readonly fingerprint = new Fingerprint()
  readonly #history: string[] = []
  #order = 0
  #failure: Error | undefined
  elapsedMs = 0
  steps = 0
  /** The maximum error so far of any host's wall clock. */
  skewMs = 0
  /** False in the last phase of a run, when the fleet has to reach quiescence. */
  faultsEnabled = true
  /** Number of injected faults by kind. */
  readonly faults: Record<string, number> = {}

  /** Whether builds of this run have scaling policies. */
  readonly hasPolicies: boolean
  /** The clock change that happens a few minutes after the run begins. Undefined: there is none. */
  readonly clockChange: ClockChange | undefined
  /** The correct wall-clock time at which the run begins, in ms since 1970. */
  readonly #startsAtMs: number
  /** Whether callers of this run come in bursts. */
  readonly hasBursts: boolean
  /** The builds of this run whose games have no SDK. */
  readonly probedBuilds: readonly string[]
  /** The number of servers that all builds of this run may have together. Undefined: they have no budget. */
  readonly budget: number | undefined

  constructor(readonly seed: number) {
    this.hasPolicies = seed % 9 === 6
    const kind = Math.floor(seed / 9)
    this.clockChange = this.hasPolicies ? clockChangeOf(kind) : undefined
    this.#startsAtMs = this.clockChange ? this.clockChange.atMs - (2 + (kind % 5)) * 60_000 : 1_700_000_000_000
    this.hasBursts = this.hasPolicies && kind % 4 < 2
    const isProbed = seed % 17 === 5 || seed % 17 === 13
    this.probedBuilds = isProbed ? (Math.floor(seed / 17) % 2 === 0 ? ['duel', 'arena'] : ['duel']) : []
    this.budget = seed % 8 === 5 ? 4 + (seed % 5) : undefined
    const draw = seededRandom(seed)
    this.#random = () => {
      this.#draws++
      return draw()
    }
  }

  after(ms: number, fn: () => void): () => void {
    const timer = {
      setMs: this.elapsedMs,
      dueMs: this.elapsedMs + Math.max(0, ms),
      order: this.#order++,
      fn: fn as (() => void) | undefined,
    }
    this.#timers.push(timer)
    return () => {
      timer.fn = undefined
    }
  }

  /** Runs the next event and the promise jobs that result. Resolves to false if nothing is due until `untilMs`. */
  async step(untilMs: number): Promise<boolean> {
    const timer = this.#timers.peek()
    if (!timer || timer.dueMs > untilMs) return false
    this.#timers.pop()
    this.elapsedMs = Math.max(this.elapsedMs, timer.dueMs)
    this.steps++
    timer.fn?.()
    await settled()
    this.fingerprint.add(this.elapsedMs, this.#order, this.#draws)
    return true
  }

  /** The correct wall-clock time, in ms since 1970. */
  get wallMs(): number {
    return this.#startsAtMs + this.elapsedMs
  }

  /** Returns a random number from 0 (inclusive) to 1 (exclusive). */
  random(): number {
    return this.#random()
  }

  chance(probability: number): boolean {
    return this.#random() < probability
  }

  /** Returns a random integer between the bounds, both inclusive. */
  between(least: number, most: number): number {
    return least + Math.floor(this.#random() * (most - least + 1))
  }

  oneOf<T>(items: readonly T[]): T | undefined {
    return items[Math.floor(this.#random() * items.length)]
  }

  bytes(count: number): Uint8Array {
    return Uint8Array.from({ length: count }, () => Math.floor(this.#random() * 256))
  }

  guid(): string {
    const hex = Buffer.from(this.bytes(16)).toString('hex')
    return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-4${hex.slice(13, 16)}-8${hex.slice(17, 20)}-${hex.slice(20)}`
  }

  /** Decides whether a fault of this kind happens now, and counts it if so. */
  fault(kind: string, probability: number): boolean {
    if (!this.faultsEnabled || !this.chance(probability)) return false
    this.countFault(kind)
    return true
  }

  countFault(kind: string): void {
    this.faults[kind] = (this.faults[kind] ?? 0) + 1
  }

  /** Reports a violation; the first one ends the run. Never throws, so it may be called from within the fleet. */
  violate(text: string): void {
    this.fail(new Violation(text))
  }

  fail(error: unknown): void {
    this.#failure ??= isError(error) ? error : new Error(String(error))
  }

  throwIfFailed(): void {
    if (this.#failure !== undefined) throw this.#failure
  }

  note(text: string): void {
    this.#history.push(`${(this.elapsedMs / 1000).toFixed(3).padStart(10)} s  ${text}`)
    if (this.#history.length > 2_000) this.#history.splice(0, 1_000)
  }

  /** Returns the last lines of the history, oldest first. */
  history(lines: number): readonly string[] {
    return lines > 0 ? this.#history.slice(-lines) : []
  }
}

/** In a third of the runs with policies the clocks are put forward, in a third back. */
function clockChangeOf(kind: number): ClockChange | undefined {
  const changes = [undefined, clockChanges.forward, clockChanges.back][kind % 3]
  return changes?.[Math.floor(kind / 6) % changes.length]
}

const turn = setImmediate

/** Resolves when all promise jobs have run: nothing waits for real I/O, so they run before the next event loop turn. */
function settled(): Promise<void> {
  return new Promise((resolve) => turn(resolve))
}
