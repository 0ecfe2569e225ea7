/**
 * Records the demand for each build, minute by minute, and keeps it in the store for some days. A build that nobody uses has no
 * records. If a host dies, what it has counted in its last minutes is lost.
 */
import { FleetError } from '../../contracts/errors.js'
import { sessionKey } from '../../rules/model/names.js'
import { keyOf, type Ref } from '../../rules/model/resources.js'
import {
  dayMs,
  dayOf,
  DemandCount,
  type DemandDay,
  type DemandMinute,
  type DemandRecord,
  type DemandRecording,
  demandRef,
  durationsOf,
  meanOf,
  minuteIn,
  minuteMs,
  minuteOf,
  minutesPerDay,
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
/** A session that was refused and is asked for again within this time is the same caller. */
const refusedMs = 10 * 60_000
const maxRefused = 100_000
/** A day that could not be read is read again after so long. */
const rereadMs = 60_000
/** If the clock was set back by less, time stays in the newest day. */
const setBackMs = 60 * 60_000
/** Days before those that are kept, of which a host that was not running may have left some. */
const swept = 7

/** One day of a build, while it is counted and until it is written. */
interface Recording {
  /** Wall time in ms. */
  readonly startsAt: number
  count: DemandCount
  /** Undefined if the day has no record yet. */
  revision: string | undefined
  /** True once `count` has what an earlier host has recorded of the day. */
  isResumed: boolean
  /** Elapsed ms. */
  resumeAt: number
  isChanged: boolean
  writing: Promise<void> | undefined
}

/** A day as it was stored; null if it has no record. */
interface StoredDay {
  day: DemandDay | null | undefined
  /** When to read it again, elapsed ms, if it could not be read. */
  rereadAt: number
}

interface BuildDemand {
  today: Recording | undefined
  /** Earlier days that are not written yet. */
  ended: Recording[]
  /** By date. */
  readonly stored: Map<string, StoredDay>
}

interface RefusedCaller {
  /** Elapsed ms. */
  readonly firstAt: number
  readonly lastAt: number
}

export class DemandRecorder {
  readonly #ctx: EngineContext
  readonly #builds = new Map<BuildEntry, BuildDemand>()
  /** By build and session, those that were refused last at the end. */
  readonly #refused = new Map<string, RefusedCaller>()
  readonly #deleting = new Set<Promise<void>>()
  #lastSample = 0
  #lastWrite: number
  #hasWarned = false

  constructor(ctx: EngineContext) {
    this.#ctx = ctx
    this.#lastWrite = ctx.clock.elapsed()
  }

  /** A session has got a server. */
  served(build: BuildEntry, sessionID: string, waitedMs: number): void {
    const recording = this.#today(build)
    if (!recording) return
    const firstAt = this.#refused.size === 0 ? undefined : this.#takeRefused(build, sessionKey(sessionID))
    const { count } = recording
    if (firstAt === undefined) count.asked(this.#minute(recording, waitedMs))
    count.waited(firstAt === undefined ? waitedMs : this.#ctx.clock.elapsed() - firstAt)
    count.inUse(this.#minute(recording), inUse(build))
    recording.isChanged = true
  }

  /** A caller got no server. `key`: of its session. */
  refused(build: BuildEntry, key: string, waitedMs: number): void {
    const recording = this.#today(build)
    if (!recording) return
    const now = this.#ctx.clock.elapsed()
    for (const [oldest, { lastAt }] of this.#refused) {
      if (now - lastAt < refusedMs && this.#refused.size < maxRefused) break
      this.#refused.delete(oldest)
    }
    const caller = callerKey(build, key)
    const known = this.#refused.get(caller)
    this.#refused.delete(caller)
    this.#refused.set(caller, { firstAt: known?.firstAt ?? now - waitedMs, lastAt: now })
    if (known) return
    const minute = this.#minute(recording, waitedMs)
    recording.count.asked(minute)
    recording.count.refused(minute)
    recording.isChanged = true
  }

  started(build: BuildEntry, ms: number): void {
    this.#today(build)?.count.started(ms)
  }

  sessionEnded(build: BuildEntry, ms: number): void {
    const recording = this.#today(build)
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
      if (used === 0 && !this.#builds.get(build)?.today) continue
      const recording = this.#today(build)
      if (!recording) continue
      // The minutes of a number that stays the same are filled in when it has changed, or when the day is over.
      recording.isChanged ||= used !== (recording.count.lastInUse ?? 0)
      recording.count.inUse(this.#minute(recording), used)
    }
    if (now - this.#lastWrite < writeMs) return
    this.#lastWrite = now
    for (const [build, { today, ended }] of this.#builds) {
      if (today?.isChanged) void this.#write(build, today)
      for (const recording of ended) void this.#write(build, recording)
    }
  }

  /** What is recorded, today included. Rejects with `unsupported` if nothing is. */
  async read(build: BuildEntry): Promise<DemandRecording> {
    const { clock, limits, store } = this.#ctx
    if (!this.#isRecording) {
      const why = store.demand ? 'limits.demandDays is 0' : 'the store does not keep it'
      throw new FleetError('unsupported', `the demand for builds is not recorded: ${why}`)
    }
    const now = clock.now()
    const days = Array.from({ length: limits.demandDays }, (_, index) => dayOf(now - index * dayMs)).toReversed()
    const found = await Promise.all(days.map((day) => this.#read(build, day)))
    return { build: build.ref, days: found.filter((day) => day !== undefined) }
  }

  /** What is not known yet is read; the build is then reconciled. */
  history(build: BuildEntry): History {
    return { at: (wallMs) => this.#at(build, wallMs), starts: () => this.#starts(build) }
  }

  /** The build was deleted. */
  forget(build: BuildEntry): void {
    const known = this.#builds.get(build)
    this.#builds.delete(build)
    if (!this.#isRecording) return
    const { clock, limits, logger } = this.#ctx
    const now = clock.now()
    const days = Array.from({ length: limits.demandDays }, (_, index) => dayOf(now - index * dayMs))
    const writing = [known?.today, ...(known?.ended ?? [])].flatMap((recording) => recording?.writing ?? [])
    const deleted = Promise.all(writing)
      .then(() => Promise.all(days.map((day) => this.#delete(demandRef(build.ref, day)))))
      .then(
        () => undefined,
        (err: unknown) => {
          logger.warn({ build: build.ref.name, err }, 'the recorded demand of a deleted build is left in the store')
        },
      )
      .finally(() => this.#deleting.delete(deleted))
    this.#deleting.add(deleted)
  }

  /** Writes what was counted. Resolves when each write has succeeded or failed. */
  async close(): Promise<void> {
    const writes = [...this.#builds].flatMap(([build, { today, ended }]) =>
      [...ended, ...(today && isUnwritten(today) ? [today] : [])].map((recording) => this.#write(build, recording)),
    )
    await Promise.all([...writes, ...this.#deleting])
  }

  get #isRecording(): boolean {
    return this.#ctx.store.demand !== undefined && this.#ctx.limits.demandDays > 0
  }

  /** Undefined if nothing is recorded. */
  #today(build: BuildEntry): Recording | undefined {
    const now = this.#ctx.clock.now()
    const known = this.#builds.get(build)?.today
    if (known && now < known.startsAt + dayMs && now > known.startsAt - setBackMs) return known
    if (!this.#isRecording || build.deleted) return undefined
    const own = this.#demandOf(build)
    // A day in the future was none.
    if (known && now >= known.startsAt) this.#dayOver(build, own, known)
    const day = dayOf(now)
    const count = new DemandCount(day)
    const isNew = { revision: undefined, isResumed: false, resumeAt: 0, isChanged: false, writing: undefined }
    own.today = { startsAt: startOfDay(day), count, ...isNew }
    return own.today
  }

  #demandOf(build: BuildEntry): BuildDemand {
    const known = this.#builds.get(build)
    if (known) return known
    const made: BuildDemand = { today: undefined, ended: [], stored: new Map() }
    this.#builds.set(build, made)
    return made
  }

  /** Of the day, so many ms ago. */
  #minute({ startsAt }: Recording, agoMs = 0): number {
    const minute = Math.floor((this.#ctx.clock.now() - agoMs - startsAt) / minuteMs)
    return Math.min(minutesPerDay - 1, Math.max(0, minute))
  }

  #takeRefused(build: BuildEntry, key: string): number | undefined {
    const caller = callerKey(build, key)
    const known = this.#refused.get(caller)
    this.#refused.delete(caller)
    return known && this.#ctx.clock.elapsed() - known.lastAt < refusedMs ? known.firstAt : undefined
  }

  #dayOver(build: BuildEntry, own: BuildDemand, recording: Recording): void {
    const { day } = recording.count
    const oldest = dayOf(startOfDay(day) - this.#ctx.limits.demandDays * dayMs)
    for (const known of own.stored.keys()) if (known < oldest) own.stored.delete(known)
    own.stored.delete(day)
    if (isUnwritten(recording)) own.ended.push(recording)
    const written = isUnwritten(recording) ? this.#write(build, recording) : Promise.resolve()
    void written.then(() => this.#sweep(build, day))
  }

  /** Deletes the days before those that are kept. */
  async #sweep(build: BuildEntry, last: string): Promise<void> {
    const { limits, logger } = this.#ctx
    const first = startOfDay(last) - (limits.demandDays - 1) * dayMs
    try {
      for (let day = 0; day < swept; day++) await this.#delete(demandRef(build.ref, dayOf(first - day * dayMs)))
    } catch (err) {
      logger.debug({ build: build.ref.name, err }, 'cannot delete old demand; will retry tomorrow')
    }
  }

  /** Tries again once, if the record was written meanwhile. */
  async #delete(ref: Ref): Promise<void> {
    const { demand } = this.#ctx.store
    const attempt = async () => {
      const found = await demand?.get(ref)
      if (found) await demand?.delete(ref, found.revision)
    }
    await attempt().catch((error: unknown) => {
      if (!FleetError.is(error, 'conflict')) throw error
      return attempt()
    })
  }

  #at(build: BuildEntry, wallMs: number): DemandMinute | undefined {
    const day = dayOf(wallMs)
    const minute = minuteOf(wallMs)
    const recording = this.#recordingOf(build, day)
    if (recording) return this.#isKnown(build, recording) ? recording.count.at(minute) : undefined
    const stored = this.#stored(build, day)
    return stored ? minuteIn(stored, minute) : undefined
  }

  #starts(build: BuildEntry): ReturnType<History['starts']> {
    const yesterday = this.#stored(build, dayOf(this.#ctx.clock.now() - dayMs))
    const today = this.#builds.get(build)?.today?.count.starts
    const all = sumOfDurations([yesterday?.starts ?? {}, today ?? {}])
    const [meanMs, drawn] = [meanOf(all), durationsOf(all)]
    return meanMs === undefined || !drawn ? undefined : { meanMs, p99Ms: drawn(0.99) }
  }

  #recordingOf(build: BuildEntry, day: string): Recording | undefined {
    const own = this.#builds.get(build)
    if (own?.today?.count.day === day) return own.today
    return own?.ended.find(({ count }) => count.day === day)
  }

  /** False until what an earlier host has recorded of that day was read. */
  #isKnown(build: BuildEntry, recording: Recording): boolean {
    const now = this.#ctx.clock.elapsed()
    if (recording.isResumed || now < recording.resumeAt) return recording.isResumed
    recording.resumeAt = now + rereadMs
    this.#resume(build, recording).then(
      () => this.#ctx.enqueue(build),
      (err: unknown) => this.#warn(build, err),
    )
    return false
  }

  #stored(build: BuildEntry, day: string): DemandDay | undefined {
    if (!this.#isRecording || build.deleted) return undefined
    const { stored } = this.#demandOf(build)
    const known = stored.get(day)
    const now = this.#ctx.clock.elapsed()
    if (known?.day !== undefined || (known && now < known.rereadAt)) return known.day ?? undefined
    const reading: StoredDay = { day: undefined, rereadAt: now + rereadMs }
    stored.set(day, reading)
    this.#get(build, day).then(
      (found) => {
        reading.day = found ? dayIn(found.record) : null
        this.#ctx.enqueue(build)
      },
      (err: unknown) => this.#warn(build, err),
    )
    return undefined
  }

  async #read(build: BuildEntry, day: string): Promise<DemandDay | undefined> {
    const recording = this.#recordingOf(build, day)
    if (recording) {
      await this.#resume(build, recording)
      return recording.count.isEmpty ? undefined : recording.count.read()
    }
    const found = await this.#get(build, day)
    return found && dayIn(found.record)
  }

  async #get(build: BuildEntry, day: string) {
    return this.#ctx.store.demand?.get(demandRef(build.ref, day))
  }

  /** Continues what an earlier host has counted of the day. */
  async #resume(build: BuildEntry, recording: Recording): Promise<void> {
    if (recording.isResumed) return
    const found = await this.#get(build, recording.count.day)
    // Another call may have resumed it while this one was waiting.
    if (recording.isResumed) return
    recording.isResumed = true
    recording.revision = found?.revision
    if (found) recording.count = recording.count.precededBy(found.record)
  }

  /** What has changed meanwhile is written, too. Never rejects. */
  async #write(build: BuildEntry, recording: Recording): Promise<void> {
    await recording.writing
    recording.writing ??= this.#put(build, recording).finally(() => (recording.writing = undefined))
    await recording.writing
  }

  async #put(build: BuildEntry, recording: Recording): Promise<void> {
    const { store } = this.#ctx
    const own = this.#builds.get(build)
    // The build has been deleted since.
    if (!own) return
    const ref = demandRef(build.ref, recording.count.day)
    try {
      await this.#resume(build, recording)
      const { count, revision } = recording
      recording.isChanged = false
      const record: DemandRecord = { ...ref, build: build.ref.name, ...count.read() }
      recording.revision =
        revision === undefined ? await store.demand?.create(record) : await store.demand?.update(record, revision)
      own.ended = own.ended.filter((one) => one !== recording)
    } catch (err) {
      this.#warn(build, err)
      recording.isChanged = true
      if (!recording.isResumed) return
      // This host leads, so what it has counted replaces what is there.
      recording.revision = await store.demand?.get(ref).then(
        (found) => found?.revision,
        () => recording.revision,
      )
    }
  }

  #warn(build: BuildEntry, err: unknown): void {
    const message = 'the demand for builds is not recorded at present; will retry'
    if (this.#hasWarned) this.#ctx.logger.debug({ build: build.ref.name, err }, message)
    else this.#ctx.logger.warn({ build: build.ref.name, err }, message)
    this.#hasWarned = true
  }
}

/** The same session may be asked of several builds. */
function callerKey({ ref }: BuildEntry, session: string): string {
  return `${keyOf(ref)} ${session}`
}

/** Servers in use are written when their number changes, so the last minutes of one that stays the same are not yet. */
function isUnwritten({ count, isChanged }: Recording): boolean {
  return isChanged || (count.lastInUse ?? 0) > 0
}

function dayIn({ namespace: _, name: __, build: ___, ...day }: DemandRecord): DemandDay {
  return day
}
