/**
 * Records the demand for each build, minute by minute, and keeps it for some days in the store. Nothing is kept of a build that nobody uses.
 * What a host that dies has counted in its last minutes is lost.
 */
import { FleetError } from '../../contracts/errors.js'
import { sessionKey } from '../../rules/model/names.js'
import type { Ref } from '../../rules/model/resources.js'
import {
  dayMs,
  dayOf,
  DemandCount,
  type DemandDay,
  type DemandMinute,
  type DemandRecording,
  type DemandRecord,
  demandRef,
  durationsOf,
  minuteIn,
  minuteMs,
  minuteOf,
  startOfDay,
  sumOfDurations,
} from '../../rules/demand/demand-day.js'
import type { History } from '../../rules/scaling/forecast.js'
import type { EngineContext } from '../context.js'
import type { BuildEntry } from '../state/entries.js'
import { inUse } from '../state/queries.js'

/** How often servers in use are counted. */
const sampleMs = 10_000
/** How often what was counted is written. */
const writeMs = 5 * 60_000
/** For so long a session that was refused and is asked for again is the same caller. */
const refusedMs = 10 * 60_000
const maxRefused = 10_000
/** Days before those that are kept, of which a host that was not running may have left some. */
const swept = 7

interface Recording {
  /** Wall time in ms. */
  readonly startsAt: number
  count: DemandCount
  /** Undefined if the day has no record yet. */
  revision: string | undefined
  /** True once `count` has what an earlier host has recorded of the day. */
  isResumed: boolean
  isChanged: boolean
  writing: Promise<void> | undefined
}

export class DemandRecorder {
  readonly #ctx: EngineContext
  readonly #today = new Map<BuildEntry, Recording>()
  /** Days of builds that were asked for. Null: that day has no record. */
  readonly #past = new Map<BuildEntry, Map<string, DemandDay | null>>()
  /** When a session was refused first, elapsed ms, by its key; the oldest first. */
  readonly #refused = new Map<string, number>()
  #lastSample = 0
  #lastWrite: number

  constructor(ctx: EngineContext) {
    this.#ctx = ctx
    this.#lastWrite = ctx.clock.elapsed()
  }

  /** A session has got a server. */
  served(build: BuildEntry, sessionID: string, waitedMs: number): void {
    const recording = this.#of(build)
    if (!recording) return
    const firstAsked = this.#refused.size === 0 ? undefined : this.#takeRefused(sessionKey(sessionID))
    const { clock } = this.#ctx
    if (firstAsked === undefined) recording.count.asked(this.#minute(recording, waitedMs))
    recording.count.waited(firstAsked === undefined ? waitedMs : clock.elapsed() - firstAsked)
    recording.count.inUse(this.#minute(recording), inUse(build))
    recording.isChanged = true
  }

  /** A caller was refused, because no server was ready. */
  refused(build: BuildEntry, key: string, waitedMs: number): void {
    const recording = this.#of(build)
    if (!recording) return
    const now = this.#ctx.clock.elapsed()
    for (const [oldest, at] of this.#refused) {
      if (now - at < refusedMs && this.#refused.size < maxRefused) break
      this.#refused.delete(oldest)
    }
    if (this.#refused.has(key)) return
    this.#refused.set(key, now - waitedMs)
    const minute = this.#minute(recording, waitedMs)
    recording.count.asked(minute)
    recording.count.refused(minute)
    recording.isChanged = true
  }

  started(build: BuildEntry, ms: number): void {
    this.#of(build)?.count.started(ms)
  }

  sessionEnded(build: BuildEntry, ms: number): void {
    const recording = this.#of(build)
    if (!recording) return
    recording.count.sessionEnded(this.#minute(recording), ms)
    recording.isChanged = true
  }

  /** Call once a second. */
  tick(): void {
    if (!this.#isRecording) return
    const now = this.#ctx.clock.elapsed()
    if (now - this.#lastSample < sampleMs) return
    this.#lastSample = now
    for (const build of this.#ctx.inventory.builds.values()) {
      const used = inUse(build)
      if (used === 0 && !this.#today.has(build)) continue
      const recording = this.#of(build)
      if (!recording) continue
      // The minutes of a number that stays the same are filled in when it has changed, or when the day is over.
      recording.isChanged ||= used !== (recording.count.lastInUse ?? 0)
      recording.count.inUse(this.#minute(recording), used)
    }
    if (now - this.#lastWrite < writeMs) return
    this.#lastWrite = now
    for (const [build, recording] of this.#today) {
      if (recording.isChanged) void this.#write(build, recording)
    }
  }

  /** What is recorded, today included. Rejects with `unsupported` if nothing is. */
  async read(build: BuildEntry): Promise<DemandRecording> {
    const { clock, limits, store } = this.#ctx
    const days = limits.demandDays
    const now = clock.now()
    if (!this.#isRecording) {
      const why = store.demand ? 'limits.demandDays is 0' : 'the store does not keep it'
      throw new FleetError('unsupported', `the demand for builds is not recorded: ${why}`)
    }
    const today = this.#today.get(build)
    if (today) await this.#resume(build, today)
    const wanted = Array.from({ length: days }, (_, index) => dayOf(now - (days - 1 - index) * dayMs))
    const found = await Promise.all(wanted.map((day) => this.#day(build, day)))
    return { build: build.ref, days: found.filter((day) => day !== undefined) }
  }

  /** What is not known yet is loaded; the build is then reconciled once it is. */
  history(build: BuildEntry): History {
    return { at: (wallMs) => this.#at(build, wallMs), startMs: () => this.#startMs(build) }
  }

  #at(build: BuildEntry, wallMs: number): DemandMinute | undefined {
    const day = dayOf(wallMs)
    const today = this.#today.get(build)
    const minute = minuteOf(wallMs)
    if (today?.count.day === day) return today.count.at(minute)
    const known = this.#past.get(build)?.get(day)
    if (known === undefined) void this.#load(build, day).then(() => this.#ctx.enqueue(build))
    return known ? minuteIn(known, minute) : undefined
  }

  #startMs(build: BuildEntry): number | undefined {
    const yesterday = this.#past.get(build)?.get(dayOf(this.#ctx.clock.now() - dayMs))
    const today = this.#today.get(build)?.count.starts
    return durationsOf(sumOfDurations([yesterday?.starts ?? {}, today ?? {}]))?.(0.99)
  }

  /** Writes what was counted. Resolves when each write has succeeded or failed. */
  async close(): Promise<void> {
    const changed = [...this.#today].filter(([, recording]) => isUnwritten(recording))
    await Promise.all(changed.map(([build, recording]) => this.#write(build, recording)))
  }

  get #isRecording(): boolean {
    return this.#ctx.store.demand !== undefined && this.#ctx.limits.demandDays > 0
  }

  /** Of today. If the clock was set back, time stays in the newest day. Undefined if nothing is recorded. */
  #of(build: BuildEntry): Recording | undefined {
    const now = this.#ctx.clock.now()
    const known = this.#today.get(build)
    if (known && now < known.startsAt + dayMs) return known
    if (!this.#isRecording || build.deleted) return undefined
    if (known) this.#dayOver(build, known)
    const day = dayOf(now)
    const recording: Recording = {
      ...{ startsAt: startOfDay(day), count: new DemandCount(day) },
      ...{ revision: undefined, isResumed: false, isChanged: false, writing: undefined },
    }
    this.#today.set(build, recording)
    return recording
  }

  /** Of the day, so many ms ago. */
  #minute({ startsAt }: Recording, agoMs = 0): number {
    return Math.max(0, Math.floor((this.#ctx.clock.now() - agoMs - startsAt) / minuteMs))
  }

  #takeRefused(key: string): number | undefined {
    const at = this.#refused.get(key)
    this.#refused.delete(key)
    return at !== undefined && this.#ctx.clock.elapsed() - at < refusedMs ? at : undefined
  }

  #dayOver(build: BuildEntry, recording: Recording): void {
    const { day } = recording.count
    const past = this.#past.get(build)
    if (past) {
      past.set(day, recording.count.read())
      const oldest = dayOf(startOfDay(day) - this.#ctx.limits.demandDays * dayMs)
      for (const known of past.keys()) if (known < oldest) past.delete(known)
    }
    const written = isUnwritten(recording) ? this.#write(build, recording) : Promise.resolve()
    void written.then(() => this.#sweep(build, day))
  }

  /** Deletes the days before those that are kept. */
  async #sweep(build: BuildEntry, today: string): Promise<void> {
    const { limits, logger } = this.#ctx
    const first = startOfDay(today) - (limits.demandDays - 1) * dayMs
    try {
      for (let day = 0; day < swept; day++) await this.#delete(demandRef(build.ref, dayOf(first - day * dayMs)))
    } catch (err) {
      logger.debug({ build: build.ref.name, err }, 'cannot delete old demand; will retry tomorrow')
    }
  }

  /** The build was deleted. */
  forget(build: BuildEntry): void {
    this.#today.delete(build)
    this.#past.delete(build)
    if (!this.#isRecording) return
    const now = this.#ctx.clock.now()
    const days = Array.from({ length: this.#ctx.limits.demandDays }, (_, index) => dayOf(now - index * dayMs))
    const deleted = Promise.all(days.map((day) => this.#delete(demandRef(build.ref, day))))
    deleted.catch((err: unknown) => {
      this.#ctx.logger.debug({ build: build.ref.name, err }, 'cannot delete the demand of a deleted build')
    })
  }

  async #delete(ref: Ref): Promise<void> {
    const { demand } = this.#ctx.store
    const found = await demand?.get(ref)
    if (found) await demand?.delete(ref, found.revision)
  }

  /** Continues what an earlier host has counted of the day. */
  async #resume(build: BuildEntry, recording: Recording): Promise<void> {
    if (recording.isResumed) return
    const found = await this.#get(build, recording.count.day)
    // Somebody else may have asked for it meanwhile.
    if (recording.isResumed) return
    recording.isResumed = true
    recording.revision = found?.revision
    if (found) recording.count = recording.count.precededBy(found.record)
  }

  async #get(build: BuildEntry, day: string) {
    return this.#ctx.store.demand?.get(demandRef(build.ref, day))
  }

  async #day(build: BuildEntry, day: string): Promise<DemandDay | undefined> {
    const today = this.#today.get(build)
    if (today?.count.day === day) return today.count.read()
    const found = await this.#get(build, day)
    return found && dayIn(found.record)
  }

  async #load(build: BuildEntry, day: string): Promise<void> {
    const past = this.#past.get(build) ?? new Map<string, DemandDay | null>()
    this.#past.set(build, past)
    // Not asked for twice at a time, and if it cannot be read, only tomorrow again.
    past.set(day, null)
    const found = await this.#day(build, day).catch(() => undefined)
    if (found) past.set(day, found)
  }

  /** Never rejects. */
  #write(build: BuildEntry, recording: Recording): Promise<void> {
    recording.writing ??= this.#put(build, recording).finally(() => (recording.writing = undefined))
    return recording.writing
  }

  async #put(build: BuildEntry, recording: Recording): Promise<void> {
    const { logger, store } = this.#ctx
    const ref = demandRef(build.ref, recording.count.day)
    try {
      await this.#resume(build, recording)
      const { count, revision } = recording
      recording.isChanged = false
      const record: DemandRecord = { ...ref, build: build.ref.name, ...count.read() }
      recording.revision =
        revision === undefined ? await store.demand?.create(record) : await store.demand?.update(record, revision)
    } catch (err) {
      logger.debug({ build: build.ref.name, err }, 'cannot write the demand; will retry')
      recording.isChanged = true
      if (!recording.isResumed) return
      // This host leads, so what it has counted replaces what is there.
      recording.revision = await store.demand?.get(ref).then(
        (found) => found?.revision,
        () => recording.revision,
      )
    }
  }
}

/** Servers in use are written when their number changes, so the last minutes of one that stays the same are not yet. */
function isUnwritten({ count, isChanged }: Recording): boolean {
  return isChanged || (count.lastInUse ?? 0) > 0
}

function dayIn({ namespace: _, name: __, build: ___, ...day }: DemandRecord): DemandDay {
  return day
}
