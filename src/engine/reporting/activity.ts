/**
 * Keeps what happened in the last hour, minute by minute, for the fleet and for each build. Memory is bounded: at most 60 minutes and
 * `maxCrashes` crashes each. Starts empty with every leadership term, but for the crashes that the records of builds keep.
 */
import type { Clock } from '../../contracts/clock.js'
import type { ActivityCrash, ActivityMinute, BuildStats, FleetActivity } from '../../contracts/observer.js'
import type { Ending } from '../../rules/model/resources.js'
import { type BuildCounts, noServers, sumOfCounts } from '../../rules/model/build-status.js'
import { DurationHistogram } from '../../util/duration-histogram.js'
import type { BuildEntry, ServerEntry } from '../state/entries.js'
import type { Inventory } from '../state/inventory.js'
import { countsOf, decidedScaling } from '../state/queries.js'

const minuteMs = 60_000
const hourMs = 60 * minuteMs
const keptMinutes = 60
const maxCrashes = 50
/** How often servers, players and waiting callers are counted. */
const sampleMs = 10_000

export class Activity {
  readonly #clock: Clock
  readonly #inventory: Pick<Inventory, 'builds'>
  readonly #waiting: (build: BuildEntry) => number
  readonly #since: number
  readonly #fleet: Recording
  readonly #builds = new Map<BuildEntry, Recording>()
  #lastSample: number

  /** `waiting` returns the number of callers that wait for a server of the build. */
  constructor(clock: Clock, inventory: Pick<Inventory, 'builds'>, waiting: (build: BuildEntry) => number) {
    this.#clock = clock
    this.#inventory = inventory
    this.#waiting = waiting
    this.#since = clock.now()
    this.#lastSample = clock.elapsed()
    this.#fleet = new Recording()
  }

  allocated(build: BuildEntry, now: number, waitedMs: number): void {
    this.#fleet.allocated(now, waitedMs)
    this.#of(build).allocated(now, waitedMs)
  }

  refused(build: BuildEntry, now: number): void {
    this.#fleet.refused(now)
    this.#of(build).refused(now)
  }

  crashed({ build, ref: server }: ServerEntry, { at, message, reason }: Ending): void {
    const crash = { at, build: build.ref, server, reason, message }
    this.#fleet.crashed(crash)
    this.#of(build).crashed(crash)
  }

  /** Counts servers, players and waiting callers, if the last count is old enough. */
  tick(): void {
    if (this.#clock.elapsed() - this.#lastSample >= sampleMs) this.#sample()
  }

  /** What happened in the fleet, or in one build. The current minute is up to date. */
  read(build?: BuildEntry): FleetActivity {
    this.#sample()
    const recording = build === undefined ? this.#fleet : this.#of(build)
    const { minutes, crashes, totals } = recording.read(this.#clock.now())
    const kept = build === undefined ? [...this.#inventory.builds.values()] : [build]
    return { since: this.#since, minutes, totals, crashes: withKept(crashes, kept.flatMap(crashesIn)) }
  }

  #sample(): void {
    const elapsed = this.#clock.elapsed()
    const sinceLastMs = Math.max(0, elapsed - this.#lastSample)
    this.#lastSample = elapsed
    const now = this.#clock.now()
    const servers: BuildCounts[] = []
    let wanted = 0
    let players = 0
    let waiting = 0
    for (const build of this.#inventory.builds.values()) {
      const { standingBy } = decidedScaling(build)?.decision ?? build.record.spec
      const counted = {
        servers: countsOf(build),
        wanted: standingBy,
        players: build.players,
        waiting: this.#waiting(build),
      }
      this.#of(build).counted(now, counted, sinceLastMs)
      servers.push(counted.servers)
      wanted += counted.wanted
      players += counted.players
      waiting += counted.waiting
    }
    this.#fleet.counted(now, { servers: sumOfCounts(servers), wanted, players, waiting }, sinceLastMs)
    if (this.#builds.size > servers.length) this.#forgetDeleted()
  }

  #forgetDeleted(): void {
    for (const build of this.#builds.keys()) if (build.deleted) this.#builds.delete(build)
  }

  #of(build: BuildEntry): Recording {
    const known = this.#builds.get(build)
    if (known) return known
    const recording = new Recording()
    this.#builds.set(build, recording)
    return recording
  }
}

type Counted = Pick<BuildStats, 'servers' | 'players' | 'waiting'> & Pick<ActivityMinute, 'wanted'>
type Minute = { -readonly [name in keyof ActivityMinute]: ActivityMinute[name] }

/** The last hour of the fleet or of one build. */
class Recording {
  /** Oldest first. */
  readonly #minutes: Minute[] = []
  /** Oldest first. */
  readonly #crashes: ActivityCrash[] = []
  #sessions = 0
  #serverMs = 0
  /** The waits of the current minute. */
  readonly #waits = new DurationHistogram()

  allocated(now: number, waitedMs: number): void {
    const minute = this.#minuteAt(now)
    this.#sessions++
    minute.allocations++
    this.#waits.add(waitedMs)
  }

  refused(now: number): void {
    this.#minuteAt(now).refused++
  }

  crashed(crash: ActivityCrash): void {
    this.#minuteAt(crash.at).crashes++
    this.#crashes.push(crash)
    if (this.#crashes.length > maxCrashes) this.#crashes.shift()
  }

  /** The servers have been there since the last count, as far as is known. */
  counted(now: number, { servers, wanted, players, waiting }: Counted, sinceLastMs: number): void {
    const minute = this.#minuteAt(now)
    this.#serverMs += sinceLastMs * sumOf(servers)
    minute.servers = servers
    minute.wanted = wanted
    minute.players = players
    minute.waiting = Math.max(minute.waiting, waiting)
  }

  read(now: number): Pick<FleetActivity, 'minutes' | 'crashes' | 'totals'> {
    this.#close()
    const first = startOf(now) - (keptMinutes - 1) * minuteMs
    const minutes = this.#minutes.filter(({ at }) => at >= first)
    return {
      minutes: minutes.map((minute) => Object.freeze({ ...minute })),
      crashes: this.#crashes.filter(({ at }) => at >= first).toReversed(),
      totals: { sessions: this.#sessions, serverHours: this.#serverMs / hourMs },
    }
  }

  /** The minute of this time. If the clock was set back, time stays in the newest minute. */
  #minuteAt(now: number): Minute {
    const at = startOf(now)
    const last = this.#minutes.at(-1)
    if (last && last.at >= at) return last
    this.#close()
    this.#waits.clear()
    const { servers = noServers, wanted = 0, players = 0 } = last ?? {}
    const minute: Minute = { at, servers, wanted, players, waiting: 0, allocations: 0, refused: 0, crashes: 0 }
    this.#minutes.push(minute)
    if (this.#minutes.length > keptMinutes) this.#minutes.shift()
    return minute
  }

  /** Writes the quantiles of the newest minute. */
  #close(): void {
    const last = this.#minutes.at(-1)
    if (!last || last.allocations === 0) return
    last.p50Ms = this.#waits.quantile(0.5)
    last.p99Ms = this.#waits.quantile(0.99)
  }
}

function crashesIn({ ref: build, record: { recentCrashes = [] } }: BuildEntry): readonly ActivityCrash[] {
  return recentCrashes.map(({ server, ...crash }) => ({
    ...crash,
    build,
    server: { namespace: build.namespace, name: server },
  }))
}

/** The record of a crash says what the server has printed, which is read later than the crash is noticed. Newest first. */
function withKept(noticed: readonly ActivityCrash[], kept: readonly ActivityCrash[]): readonly ActivityCrash[] {
  if (kept.length === 0) return noticed
  const keyOfCrash = ({ at, server }: ActivityCrash) => `${at} ${server.namespace}/${server.name}`
  const all = new Map([...noticed, ...kept].map((crash) => [keyOfCrash(crash), crash]))
  return [...all.values()].toSorted((a, b) => b.at - a.at).slice(0, maxCrashes)
}

function startOf(now: number): number {
  return Math.floor(now / minuteMs) * minuteMs
}

function sumOf(counts: BuildCounts): number {
  return counts.pending + counts.initializing + counts.standingBy + counts.active + counts.terminating
}
