/**
 * Terminates a server: counts its crash, waits while its game can exit on its own, destroys its instance, and deletes its
 * records.
 */
import { developmentGraceMs } from '../../contracts/backend.js'
import { FleetError } from '../../contracts/errors.js'
import { nextTerminationStep, remainingGraceMs, type TerminationInput } from '../../rules/lifecycle/termination.js'
import { lifeLimits } from '../../rules/lifecycle/health.js'
import { secretMask } from '../../rules/model/names.js'
import { keptCrashes, type Server } from '../../rules/model/resources.js'
import { cutMessage } from '../../rules/model/sizes.js'
import { graceSecondsOf } from '../../rules/validation/pod-template.js'
import { withTimeout } from '../../util/with-timeout.js'
import { type EngineContext, serverEvent } from '../context.js'
import type { BuildWriter } from '../persistence/build-writer.js'
import type { DetailWriter } from '../persistence/detail-writer.js'
import { withCrashing } from '../reporting/conditions.js'
import type { EventReporter } from '../reporting/event-reporter.js'
import type { BuildEntry, ServerEntry } from '../state/entries.js'
import { expectsHeartbeat, isSaved } from '../state/queries.js'

export interface ServerTerminatorDependencies {
  readonly buildWriter: BuildWriter
  readonly details: Pick<DetailWriter, 'remove'>
  readonly events: Pick<EventReporter, 'serverGone'>
}

const maxDeleteAttempts = 5
/** How many lines of its log the record of a crash quotes, and how much of each. */
const outputLines = 4
const outputLineLength = 200
const outputTimeoutMs = 5_000

export class ServerTerminator {
  readonly #ctx: EngineContext
  readonly #deps: ServerTerminatorDependencies
  /** Servers for which a call of `backend.destroy` is in progress. */
  readonly #signalled = new Set<ServerEntry>()

  constructor(ctx: EngineContext, deps: ServerTerminatorDependencies) {
    this.#ctx = ctx
    this.#deps = deps
  }

  /**
   * Returns the time in ms after which to call again while the game can exit on its own, or undefined once the server has been
   * removed.
   */
  async terminate(entry: ServerEntry): Promise<number | undefined> {
    await this.#countCrash(entry)
    const step = nextTerminationStep(this.#inputOf(entry))
    if (step.type === 'wait') return step.ms
    if (entry.createRequested) await this.#ctx.destroyLimiter(entry.build, () => this.#destroy(entry))
    // Set before the sessions are reported as ended, so that a listener that allocates one again does not get this server.
    entry.removal = Promise.resolve().then(() => this.#remove(entry))
    await entry.removal
    return undefined
  }

  async #remove(entry: ServerEntry): Promise<void> {
    const { emitter, inventory } = this.#ctx
    const deposedError = this.#ctx.deposedError()
    if (deposedError) throw deposedError
    this.#deps.events.serverGone(entry)
    // Needed even if the record was already deleted, because an earlier write may have taken effect late.
    if (entry.revision !== undefined) await this.#deleteRecord(entry)
    inventory.remove(entry)
    this.#deps.details.remove(entry)
    emitter.emit({ type: 'ServerRemoved', ...serverEvent(this.#ctx, entry, `${entry.record.name} was removed`) })
  }

  /**
   * Call before this host closes. Has the backend send the termination signal to every server that waits for it, so that no
   * game stays up until another host starts. Does not wait for the games to exit.
   */
  signalAll(): void {
    for (const entry of this.#ctx.inventory.servers.values()) {
      const isDurable = entry.recordDeleted || isSaved(entry)
      if (entry.record.state !== 'Terminating' || !isDurable || !entry.createRequested || this.#signalled.has(entry))
        continue
      void this.#destroy(entry).catch((error: unknown) => {
        if (FleetError.is(error, 'closed')) return
        this.#ctx.logger.warn({ server: entry.record.name, err: error }, 'server not terminated before close')
      })
    }
  }

  async #destroy(entry: ServerEntry): Promise<void> {
    const { backend, clock, limits } = this.#ctx
    const { ref, record } = entry
    // Computed only now, because waiting for the limiter takes time.
    const graceMs = remainingGraceMs(this.#inputOf(entry))
    this.#signalled.add(entry)
    try {
      await withTimeout(clock, graceMs + limits.callTimeoutMs, `the termination of ${ref.name}`, (signal) =>
        backend.destroy(ref, record.uid, { graceMs, signal, ...(isWorthReading(record) && { keepLog: true }) }),
      )
    } finally {
      this.#signalled.delete(entry)
    }
  }

  #inputOf(entry: ServerEntry): TerminationInput {
    const { backend, clock, limits, responsiveClock } = this.#ctx
    const { record, build, instance, terminateSentAt, silentSince } = entry
    const { spec } = build.record
    const longestMs = backend.capabilities.development ? developmentGraceMs : Infinity
    const isExpected = backend.capabilities.regularHeartbeats !== false && expectsHeartbeat(entry)
    return {
      // A game without an SDK hears nothing but the signal.
      order: spec.sdk === 'none' ? 'SignalFirst' : (spec.termination ?? 'HeartbeatFirst'),
      graceMs: Math.min(1_000 * (record.graceSeconds ?? graceSecondsOf(spec.template)), longestMs),
      hasEnded: instance?.phase === 'exited' || (instance === undefined && !isExpected),
      sinceTerminateMs: terminateSentAt === undefined ? undefined : clock.elapsed() - terminateSentAt,
      sinceHeartbeatMs: isExpected ? responsiveClock.now() - silentSince : undefined,
      silenceMs: lifeLimits(spec.health, limits).silenceMs,
    }
  }

  /** Adds the crash to the build's durable count before the server's record, the only trace of it, is deleted. */
  async #countCrash(entry: ServerEntry): Promise<void> {
    if (!entry.record.ending?.crash || entry.crashCounted || entry.build.deleted) return
    const { name, uid, ending } = entry.record
    const output = await this.#lastOutput(entry)
    await this.#deps.buildWriter.change(entry.build, (record) => {
      if (record.countedCrashes.includes(uid)) return record
      const { at, reason, message } = ending
      const crash = { at, server: name, reason, message: cutMessage(message), ...(output !== '' && { output }) }
      const counted = {
        ...record,
        crashes: record.crashes + 1,
        countedCrashes: [...withoutRemoved(entry.build, record.countedCrashes), uid],
        recentCrashes: [crash, ...(record.recentCrashes ?? [])].slice(0, keptCrashes),
      }
      return withCrashing(counted, crash, this.#ctx.clock.now())
    })
    entry.crashCounted = true
  }

  /** Returns what a server that crashed has printed last. Empty if there is nothing. Never rejects. */
  async #lastOutput({ build, createRequested, record, ref }: ServerEntry): Promise<string> {
    const { backend, clock, destroyLimiter, logger } = this.#ctx
    const { logs } = backend
    if (!logs || !createRequested) return ''
    const mask = secretMask(ref.name, record.token)
    const lines: string[] = []
    try {
      await destroyLimiter(build, () =>
        withTimeout(clock, outputTimeoutMs, `reading the log of ${ref.name}`, async (signal) => {
          for await (const line of logs(ref, { tail: outputLines, signal })) lines.push(printable(mask(line)))
        }),
      )
    } catch (error) {
      logger.debug({ server: ref.name, err: error }, 'cannot read the log of a server that crashed')
    }
    return lines.filter((line) => line !== '').join(' | ')
  }

  async #deleteRecord(entry: ServerEntry): Promise<void> {
    const { store } = this.#ctx
    for (let attempt = 1; entry.revision !== undefined; attempt++) {
      const { revision } = entry
      try {
        await store.servers.delete(entry.record, revision)
        // If the revision has changed, an earlier write took effect late and created the record again.
        if (entry.revision === revision) return
      } catch (error) {
        if (!FleetError.is(error, 'conflict')) throw error
        const current = await store.servers.get(entry.record)
        if (current?.record.uid !== entry.record.uid) return
        // Another writer changed the record. Retry immediately, because after a back-off it may have changed again.
        entry.revision = current.revision
        if (attempt >= maxDeleteAttempts) throw error
      }
    }
  }
}

/**
 * Drops the uids of servers that have been removed, but only once there are many of them, so that a burst of crashes stays
 * cheap.
 */
function withoutRemoved(build: BuildEntry, counted: readonly string[]): readonly string[] {
  const { terminating } = build.buckets
  if (counted.length <= 2 * terminating.size) return counted
  const uids = new Set(Array.from(terminating, ({ record }) => record.uid))
  return counted.filter((uid) => uids.has(uid))
}

/** Who asks later what happened asks about a match or a crash. */
function isWorthReading({ ending, startedSessions = 0 }: Server): boolean {
  return startedSessions > 0 || ending?.crash === true
}

/** What a game prints must not control the terminal that shows the message. */
function printable(line: string): string {
  return line
    .replaceAll(/\p{Cc}/gu, '')
    .trim()
    .slice(0, outputLineLength)
}
