/** What callers asked of a build in one day, minute by minute, and what came of it. Pure. */
import { isObject, shown } from '../validation/problem.js'
import type { Ref } from '../model/resources.js'

/** One day, in UTC. Minutes after the end of a list are 0. */
export interface DemandDay {
  /** `2026-11-28`. */
  readonly day: string
  /** How many callers came in each minute. A session counts once, however often it is asked for. */
  readonly asked: readonly number[]
  /** How many of them were refused at least once, because no server was ready. */
  readonly refused: readonly number[]
  /** The most servers in use in each minute. */
  readonly inUse: readonly number[]
  /** How long callers waited for their servers. */
  readonly waits: Durations
  /** How long servers took until they were standing by. */
  readonly starts: Durations
  /** How long sessions took, by the hour in which they ended: `0` to `23`. */
  readonly sessions: Readonly<Record<string, Durations>>
}

/** The record in the store. Its name is that of the build and the day: `arena.2026-11-28`. */
export interface DemandRecord extends Ref, DemandDay {
  /** Name of the build. */
  readonly build: string
}

/** The demand for a build, as it was recorded. */
export interface DemandRecording {
  readonly build: Ref
  /** Oldest first. Days without any use are missing. */
  readonly days: readonly DemandDay[]
}

/** Number of durations by bin: bin 0 has those up to 100 ms, and each bin ends a tenth later than the one before it. */
export type Durations = Readonly<Record<string, number>>

export const minuteMs = 60_000
export const dayMs = 1_440 * minuteMs
export const minutesPerDay = 1_440

const firstBinMs = 100
const growth = 1.1
/** Over 16 days. */
const lastBin = 172

export function dayOf(wallMs: number): string {
  return new Date(wallMs).toISOString().slice(0, 10)
}

export function startOfDay(day: string): number {
  return Date.parse(`${day}T00:00:00Z`)
}

/** From 0 to 1,439. */
export function minuteOf(wallMs: number): number {
  return Math.floor((wallMs - startOfDay(dayOf(wallMs))) / minuteMs)
}

export function demandRef(build: Ref, day: string): Ref {
  return { namespace: build.namespace, name: `${build.name}.${day}` }
}

export function binOf(ms: number): number {
  if (ms <= firstBinMs) return 0
  return Math.min(lastBin, Math.ceil(Math.log(ms / firstBinMs) / Math.log(growth)))
}

/** The durations of a bin are longer than the first number and at most the second, in ms. */
function edgesOf(bin: number): readonly [number, number] {
  return [bin === 0 ? 0 : firstBinMs * growth ** (bin - 1), firstBinMs * growth ** bin]
}

export function countOf(durations: Durations): number {
  return Object.values(durations).reduce((sum, count) => sum + count, 0)
}

export function sumOfDurations(all: readonly Durations[]): Durations {
  const sum: Record<string, number> = {}
  for (const one of all) for (const [bin, count] of Object.entries(one)) sum[bin] = (sum[bin] ?? 0) + count
  return sum
}

/**
 * Returns the duration that a share of all, from 0 to 1, do not exceed, in ms, evenly spread within its bin. So random shares draw from the
 * durations as they were. Undefined if there are none.
 */
export function durationsOf(durations: Durations): ((share: number) => number) | undefined {
  let total = 0
  const bins = Object.entries(durations)
    .map(([bin, count]) => ({ bin: Number(bin), count }))
    .filter(({ count }) => count > 0)
    .toSorted((a, b) => a.bin - b.bin)
    .map(({ bin, count }) => ({ bin, count, before: (total += count) - count }))
  if (total === 0) return undefined
  return (share) => {
    const rank = share * total
    let [low, high] = [0, bins.length - 1]
    while (low < high) {
      const middle = (low + high + 1) >> 1
      if ((bins[middle]?.before ?? 0) < rank) low = middle
      else high = middle - 1
    }
    const { bin, before, count } = bins[low] ?? { bin: 0, before: 0, count: 1 }
    const [from, to] = edgesOf(bin)
    return Math.round(from + ((to - from) * (rank - before)) / count)
  }
}

export interface DemandMinute {
  /** How many callers came. */
  readonly asked: number
  /** How many of them were refused at least once, because no server was ready. */
  readonly refused: number
  /** The most servers in use. */
  readonly inUse: number
}

export function minuteIn(
  { asked, refused, inUse }: Pick<DemandDay, 'asked' | 'refused' | 'inUse'>,
  minute: number,
): DemandMinute {
  return { asked: asked[minute] ?? 0, refused: refused[minute] ?? 0, inUse: inUse[minute] ?? 0 }
}

/** In ms. Undefined if there are none. */
export function meanOf(durations: Durations): number | undefined {
  const count = countOf(durations)
  const middleOf = (bin: string) => edgesOf(Number(bin)).reduce((sum, edge) => sum + edge / 2, 0)
  const sum = Object.entries(durations).reduce((total, [bin, of]) => total + of * middleOf(bin), 0)
  return count === 0 ? undefined : sum / count
}

/** A day while it is being counted. */
export class DemandCount {
  readonly day: string
  readonly #asked: number[] = []
  readonly #refused: number[] = []
  readonly #inUse: number[] = []
  readonly #waits: Record<string, number> = {}
  readonly #starts: Record<string, number> = {}
  readonly #sessions: Record<string, Record<string, number>> = {}

  /** `recorded`: what is known of the day already. */
  constructor(day: string, recorded?: DemandDay) {
    this.day = day
    if (recorded) this.#add(recorded)
  }

  /** A caller who came in that minute. */
  asked(minute: number): void {
    addAt(this.#asked, minute, 1)
  }

  refused(minute: number): void {
    addAt(this.#refused, minute, 1)
  }

  waited(ms: number): void {
    addTo(this.#waits, ms)
  }

  started(ms: number): void {
    addTo(this.#starts, ms)
  }

  sessionEnded(minute: number, ms: number): void {
    addTo((this.#sessions[Math.floor(minute / 60)] ??= {}), ms)
  }

  /** Minutes for which nobody has counted have the larger of the numbers before and after them. */
  inUse(minute: number, servers: number): void {
    const last = this.#inUse.at(-1)
    const between = last === undefined ? 0 : Math.max(last, servers)
    while (this.#inUse.length < minute) this.#inUse.push(between)
    this.#inUse[minute] = Math.max(this.#inUse[minute] ?? 0, servers)
  }

  /** True if nobody has come and no server was in use. */
  get isEmpty(): boolean {
    return this.#asked.length === 0 && this.#inUse.every((servers) => servers === 0)
  }

  /** The number of the last minute that was counted. */
  get lastInUse(): number | undefined {
    return this.#inUse.at(-1)
  }

  at(minute: number): DemandMinute {
    return minuteIn({ asked: this.#asked, refused: this.#refused, inUse: this.#inUse }, minute)
  }

  get starts(): Durations {
    return this.#starts
  }

  /** Adds what an earlier host has counted on the same day. */
  precededBy(recorded: DemandDay): DemandCount {
    const count = new DemandCount(this.day, recorded)
    count.#add(this.read())
    return count
  }

  read(): DemandDay {
    const sessions = Object.fromEntries(Object.entries(this.#sessions).map(([hour, of]) => [hour, { ...of }]))
    return {
      day: this.day,
      asked: [...this.#asked],
      refused: [...this.#refused],
      inUse: [...this.#inUse],
      waits: { ...this.#waits },
      starts: { ...this.#starts },
      sessions,
    }
  }

  #add({ asked, refused, inUse, waits, starts, sessions }: DemandDay): void {
    asked.forEach((count, minute) => addAt(this.#asked, minute, count))
    refused.forEach((count, minute) => addAt(this.#refused, minute, count))
    // The zeros before the first use say nothing about an earlier host.
    const first = inUse.findIndex((servers) => servers > 0)
    inUse.forEach((servers, minute) => {
      if (this.#inUse.length === 0 || (first >= 0 && minute >= first)) this.inUse(minute, servers)
    })
    addDurations(this.#waits, waits)
    addDurations(this.#starts, starts)
    for (const [hour, of] of Object.entries(sessions)) addDurations((this.#sessions[hour] ??= {}), of)
  }
}

function addAt(list: number[], minute: number, count: number): void {
  if (count === 0) return
  while (list.length < minute) list.push(0)
  list[minute] = (list[minute] ?? 0) + count
}

function addTo(durations: Record<string, number>, ms: number): void {
  const bin = binOf(ms)
  durations[bin] = (durations[bin] ?? 0) + 1
}

function addDurations(sum: Record<string, number>, more: Durations): void {
  for (const [bin, count] of Object.entries(more)) sum[bin] = (sum[bin] ?? 0) + count
}

export function isDemandDay(value: unknown): value is DemandDay {
  return dayProblem(value) === undefined
}

/** Returns what is wrong with the days of a recording. Undefined: nothing. */
export function recordingProblem(value: unknown): string | undefined {
  if (!isObject(value) || !Array.isArray(value['days'])) return 'it must be a recording, with days'
  const days: readonly unknown[] = value['days']
  for (const [index, day] of days.entries()) {
    const problem = dayProblem(day)
    if (problem) return `days[${index}]${problem}`
  }
  return undefined
}

function dayProblem(value: unknown): string | undefined {
  if (!isObject(value)) return ' must be an object'
  const { day, waits, starts, sessions } = value
  if (typeof day !== 'string' || !/^\d{4}-\d\d-\d\d$/.test(day) || !Number.isFinite(startOfDay(day)))
    return `.day must be a date such as 2026-11-28, but is ${shown(day)}`
  for (const name of ['asked', 'refused', 'inUse']) {
    const list = value[name]
    if (!Array.isArray(list) || list.length > minutesPerDay || !list.every(isCount))
      return `.${name} must be a list of at most ${minutesPerDay} whole numbers ≥ 0`
  }
  if (!isDurations(waits)) return '.waits must have whole numbers ≥ 0, by bin'
  if (!isDurations(starts)) return '.starts must have whole numbers ≥ 0, by bin'
  const isWhole = isObject(sessions) && Object.values(sessions).every(isDurations)
  return isWhole ? undefined : '.sessions must have whole numbers ≥ 0, by hour and bin'
}

function isDurations(value: unknown): boolean {
  return isObject(value) && Object.entries(value).every(([bin, count]) => isBin(bin) && isCount(count))
}

function isBin(text: string): boolean {
  return /^\d{1,3}$/.test(text) && Number(text) <= lastBin
}

function isCount(value: unknown): boolean {
  return Number.isInteger(value) && Number(value) >= 0
}
