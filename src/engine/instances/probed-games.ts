/**
 * Stands in for the SDK of games that have none: probes each running server, reports to the engine what an SDK would, and tells the game of its
 * session. Only for servers whose build has `game`.
 */
import { messageOf } from '../../contracts/errors.js'
import type { ProbeAddress, Prober } from '../../contracts/prober.js'
import type { GameState, Heartbeat, HeartbeatAnswer, ParkedHeartbeat } from '../../rules/game/heartbeat.js'
import {
  afterFailedProbe,
  afterPass,
  emptyEnd,
  gameDefaults,
  type GameSpec,
  isHealthy,
  matchesLine,
  networkProbePort,
  playersProbePort,
  sessionLine,
  unprobed,
} from '../../rules/game/probes.js'
import { transition } from '../../rules/lifecycle/lifecycle.js'
import { keyOf, type Session } from '../../rules/model/resources.js'
import { withTimeout } from '../../util/with-timeout.js'
import type { EngineContext } from '../context.js'
import { setPendingReason } from '../reporting/start-failures.js'
import type { ServerEntry } from '../state/entries.js'

/** Of so many games, not one answers only if it is this host that reaches none. */
const enoughGames = 3

interface ProbedGamesDependencies {
  readonly prober: Prober
  readonly heartbeat: (sessionHostId: string, heartbeat: Heartbeat) => HeartbeatAnswer
  readonly park: (sessionHostId: string, parked: ParkedHeartbeat) => (() => void) | undefined
}

/** What the games of a host have in common. */
interface Neighbours {
  /** Call when a game has answered. */
  answered(): void
  /** True if no game has answered since then, elapsed ms, so that a failure says nothing about one of them. */
  areSilentSince(elapsedMs: number): boolean
}

export class ProbedGames {
  readonly #ctx: EngineContext
  readonly #deps: ProbedGamesDependencies
  readonly #games = new Map<ServerEntry, ProbedGame>()
  #answeredAt = -Infinity
  #cancelBeat: (() => void) | undefined
  readonly #neighbours: Neighbours = {
    answered: () => (this.#answeredAt = this.#ctx.clock.elapsed()),
    areSilentSince: (elapsedMs) => this.#games.size >= enoughGames && this.#answeredAt < elapsedMs,
  }

  constructor(ctx: EngineContext, deps: ProbedGamesDependencies) {
    this.#ctx = ctx
    this.#deps = deps
  }

  /** Call when the process of a server is running. May be called again. */
  running(entry: ServerEntry): void {
    // What a backend only simulates sends its own heartbeats.
    if (!entry.build.record.spec.game || !this.#ctx.backend.capabilities.agent || this.#games.has(entry)) return
    const over = () => void this.#games.delete(entry)
    const game = new ProbedGame(this.#ctx, { ...this.#deps, neighbours: this.#neighbours, over }, entry)
    this.#games.set(entry, game)
    this.#cancelBeat ??= this.#afterInterval()
    game.start()
  }

  /** Between probes, which may be far apart or take long, each game is heard as one with an SDK is. */
  #afterInterval(): () => void {
    return this.#ctx.clock.after(this.#ctx.limits.heartbeatIntervalMs, () => {
      for (const game of [...this.#games.values()]) game.beat()
      this.#cancelBeat = this.#games.size > 0 ? this.#afterInterval() : undefined
    })
  }

  stop(): void {
    this.#cancelBeat?.()
    for (const game of this.#games.values()) game.stop()
    this.#games.clear()
  }
}

/** How many of the lines that a game has printed before are read, for those that a host missed while it was away. */
const earlierLines = 1_000

interface ProbedGameDependencies extends ProbedGamesDependencies {
  readonly neighbours: Neighbours
  /** Called when there is nothing to ask any more. */
  readonly over: () => void
}

class ProbedGame {
  readonly #ctx: EngineContext
  readonly #deps: ProbedGameDependencies
  readonly #entry: ServerEntry
  /** Since when its probes have failed, elapsed ms. */
  #failingSince: number | undefined
  #known = unprobed
  #isReady: boolean
  /** False until this host has asked it for the first time. */
  #isAsked = false
  #isStopped = false
  #isTelling = false
  #log: LogWatch | undefined
  #cancelTimer = () => {}
  #cancelPark: (() => void) | undefined

  constructor(ctx: EngineContext, deps: ProbedGameDependencies, entry: ServerEntry) {
    this.#ctx = ctx
    this.#deps = deps
    this.#entry = entry
    // After a restart of the host, what its record says holds.
    this.#isReady = entry.record.state === 'StandingBy' || entry.record.state === 'Active'
  }

  /** Servers that are known to be ready are spread over seconds, because a host finds all of them at once. */
  start(): void {
    this.#after(this.#isReady ? this.#share(Math.min(this.#periodMs, spreadMs)) : 0)
  }

  /** Sends a heartbeat, if it has been asked. */
  beat(): void {
    if (this.#isAsked && this.#current()) this.#report()
  }

  stop(): void {
    this.#isStopped = true
    this.#cancelTimer()
    this.#cancelPark?.()
    this.#log?.stop()
  }

  get #spec(): GameSpec | undefined {
    return this.#entry.build.record.spec.game
  }

  get #periodMs(): number {
    return 1_000 * (this.#spec?.periodSeconds ?? gameDefaults.periodSeconds)
  }

  #after(ms: number): void {
    this.#cancelTimer()
    if (!this.#isStopped) this.#cancelTimer = this.#ctx.clock.after(ms, () => void this.#round())
  }

  /** A random part of a time, so that probes do not come together. */
  #share(ms: number): number {
    const [byte = 0] = this.#ctx.clock.randomBytes(1)
    return (ms * byte) / 256
  }

  /** Probes the game once, reports, and sets the timer for the next time. */
  async #round(): Promise<void> {
    const spec = this.#current()
    if (!spec) return
    try {
      await (this.#isReady ? this.#probe(spec) : this.#probeReadiness(spec))
      this.#isAsked = true
      this.beat()
    } catch (error) {
      this.#ctx.logger.error({ server: keyOf(this.#entry.record), err: error }, 'a game could not be probed')
    }
    // Not ready yet: a second is soon enough, and no game waits five for its first players.
    const ms = this.#isReady ? this.#periodMs : Math.min(this.#periodMs, startingPeriodMs)
    this.#after(ms * 0.9 + this.#share(ms * 0.2))
  }

  /** What to ask the game, or undefined if there is nothing to ask any more. */
  #current(): GameSpec | undefined {
    const { instance, record } = this.#entry
    const isRunning = instance?.phase === 'running' && record.state !== 'Terminating'
    const isKnown = this.#ctx.inventory.servers.get(keyOf(record)) === this.#entry
    if (!this.#isStopped && isRunning && isKnown && this.#spec) return this.#spec
    if (!this.#isStopped) {
      this.stop()
      this.#deps.over()
    }
    return undefined
  }

  async #probeReadiness({ readiness, timeoutSeconds = gameDefaults.timeoutSeconds }: GameSpec): Promise<void> {
    const { log, runningSeconds } = readiness
    const { responsiveClock } = this.#ctx
    if (runningSeconds !== undefined) {
      const { runningSince = responsiveClock.now() } = this.#entry
      this.#isReady = responsiveClock.now() - runningSince >= runningSeconds * 1_000
      if (!this.#isReady) this.#explain(`not ready yet: it runs for less than ${runningSeconds} s`)
    } else if (log !== undefined) {
      this.#explain(`not ready yet: no line of its log has ${JSON.stringify(log)}`)
      this.#follow(log, () => {
        this.#isReady = true
        this.#log = undefined
        this.#after(0)
      })
    } else {
      try {
        await this.#deps.prober.check(readiness, this.#address(networkProbePort(readiness)), timeoutSeconds * 1_000)
        this.#isReady = true
      } catch (error) {
        this.#explain(`not ready yet: ${messageOf(error)}`)
      }
    }
    if (this.#isReady) this.#explain(undefined)
  }

  /** Liveness and players. Where nothing is asked, the process that runs is enough. */
  async #probe(spec: GameSpec): Promise<void> {
    const { liveness, players, timeoutSeconds = gameDefaults.timeoutSeconds } = spec
    const { prober } = this.#deps
    const timeoutMs = timeoutSeconds * 1_000
    const ask = async () => {
      const [alive, report] = await Promise.allSettled([
        liveness && prober.check(liveness, this.#address(networkProbePort(liveness)), timeoutMs),
        players && prober.players(players, this.#address(playersProbePort(players)), timeoutMs),
      ])
      if (alive.status === 'rejected') throw alive.reason
      if (report.status === 'fulfilled') return report.value
      // With a probe of its own for liveness, an unanswered query says nothing about the game.
      if (liveness) return undefined
      throw report.reason
    }
    const asksNothing = !liveness && !players
    try {
      const report = await ask()
      if (!asksNothing) this.#deps.neighbours.answered()
      if (this.#failingSince !== undefined) this.#explain(undefined)
      this.#failingSince = undefined
      this.#known = afterPass(this.#known, report, spec, this.#ctx.clock.elapsed())
    } catch (error) {
      this.#failed(spec, messageOf(error))
    }
  }

  #failed(spec: GameSpec, reason: string): void {
    const { clock, logger } = this.#ctx
    const wasHealthy = isHealthy(this.#known, spec)
    this.#failingSince ??= clock.elapsed()
    if (this.#deps.neighbours.areSilentSince(this.#failingSince)) {
      logger.debug(
        { server: keyOf(this.#entry.record), reason },
        'no game answers its probes; none counts as Unhealthy for that',
      )
      return
    }
    this.#known = afterFailedProbe(this.#known)
    this.#explain(`it does not answer: ${reason}`)
    if (!wasHealthy || isHealthy(this.#known, spec)) return
    const { failures } = this.#known
    logger.warn({ server: keyOf(this.#entry.record), failures, reason }, 'game does not answer its probes')
  }

  /** What people see of the server while it is not as it should be. */
  #explain(reason: string | undefined): void {
    setPendingReason(this.#ctx, this.#entry, reason)
  }

  /** Throws if the port is not reachable yet. */
  #address(port: number | undefined): ProbeAddress {
    const { address, inside, ports = [] } = this.#entry.instance ?? {}
    const pair = port === undefined ? ports[0] : ports.find(({ container }) => container === port)
    const host = inside?.host ?? address
    if (!pair || host === undefined) throw new Error(`port ${port ?? 'of the game'} has no address yet`)
    return { host, port: inside?.ports === 'container' ? pair.container : pair.public }
  }

  /** Sends the heartbeat that an SDK would send, and does what its answer asks for. */
  #report(): void {
    const { record } = this.#entry
    const spec = this.#spec
    if (!spec) return
    const session = record.sessions[0]
    const isTold = record.state === 'Active' && (!session || session.told === true || !spec.session)
    const answer = this.#beat(spec, isTold ? 'Active' : this.#isReady ? 'StandingBy' : 'Initializing')
    if (answer.operation === 'Terminate' || answer.isElsewhere) return
    if (isTold) this.#watchForEnd(spec)
    else if (answer.operation === 'Active') this.#allocated()
    else if (this.#isReady) this.#park()
  }

  #beat(spec: GameSpec, state: GameState): HeartbeatAnswer {
    const health = isHealthy(this.#known, spec) ? 'Healthy' : 'Unhealthy'
    return this.#deps.heartbeat(this.#entry.hostId, { state, health, players: this.#known.players })
  }

  /** Waits for a session, so that the game learns of it at once. */
  #park(): void {
    this.#cancelPark = this.#deps.park(this.#entry.hostId, {
      waitMs: Infinity,
      answer: (answer) => {
        // Not within the change that has led to it.
        if (answer.operation === 'Active') this.#ctx.clock.after(0, () => this.#allocated())
      },
    })
  }

  /** The server has a session: tells the game, and then the fleet that it has it. */
  #allocated(): void {
    const spec = this.#current()
    const session = this.#entry.record.sessions[0]
    if (!spec || !session || this.#isTelling) return
    const line = spec.session?.stdin
    if (line === undefined || session.told) {
      this.#beat(spec, 'Active')
      this.#watchForEnd(spec)
      return
    }
    this.#isTelling = true
    void this.#tell(session, line).finally(() => {
      this.#isTelling = false
    })
  }

  /** If it fails, the next round tries again. A host that dies here leaves open whether the game was told: the next one tells it again. */
  async #tell(session: Session, template: string): Promise<void> {
    const { backend, clock, inventory, limits, logger } = this.#ctx
    const { ref } = this.#entry
    const line = `${sessionLine(template, session)}\n`
    try {
      await withTimeout(clock, limits.callTimeoutMs, `the line for ${ref.name}`, async (signal) =>
        backend.writeStdin?.(ref, line, { signal }),
      )
    } catch (error) {
      logger.warn({ server: keyOf(ref), err: error }, 'game could not be told of its session; will retry')
      return
    }
    if (this.#current() === undefined) return
    const event = { type: 'sessionTold' as const, number: session.number }
    inventory.update(this.#entry, transition(this.#entry.record, event, clock.now()))
    this.#report()
  }

  /** Ends the server if its session is over. */
  #watchForEnd(spec: GameSpec): void {
    const reason = emptyEnd(this.#known, this.#entry.hadPlayers, spec)
    if (reason !== undefined) this.#end(reason)
    else if (spec.end?.log !== undefined) this.#follow(spec.end.log, (line) => this.#end(`its log says: ${line}`))
  }

  #end(reason: string): void {
    const { clock, inventory } = this.#ctx
    if (this.#current() === undefined) return
    const event = { type: 'end' as const, reason: 'Exited' as const, message: `the session is over: ${reason}` }
    inventory.update(this.#entry, transition(this.#entry.record, event, clock.now()))
  }

  /** Reads the log until a line matches. Goes on where it is being read for the same pattern; begins again if that has ended. */
  #follow(pattern: string, found: (line: string) => void): void {
    if (this.#log?.isReading(pattern)) return
    this.#log?.stop()
    this.#log = new LogWatch(this.#ctx, this.#entry, pattern, (line) => {
      if (!this.#isStopped) found(line)
    })
  }
}

/** The longest time between two probes of a server that is starting, in ms. */
const startingPeriodMs = 1_000
/** The time over which a host that begins to lead spreads its first probes, in ms. */
const spreadMs = 5_000

/** How much of a line a message shows. */
const shownLength = 200

/** Follows the log of a server until a line matches. */
class LogWatch {
  readonly #pattern: string
  readonly #abort = new AbortController()
  #isOver = false

  constructor(ctx: EngineContext, entry: ServerEntry, pattern: string, found: (line: string) => void) {
    this.#pattern = pattern
    void this.#read(ctx, entry, found).catch((error: unknown) => {
      this.#isOver = true
      if (this.#abort.signal.aborted) return
      ctx.logger.debug({ server: keyOf(entry.record), err: error }, 'log could not be followed; will retry')
    })
  }

  isReading(pattern: string): boolean {
    return !this.#isOver && pattern === this.#pattern
  }

  stop(): void {
    this.#abort.abort()
  }

  async #read({ backend }: EngineContext, { ref }: ServerEntry, found: (line: string) => void): Promise<void> {
    const { signal } = this.#abort
    const lines = backend.logs?.(ref, { follow: true, tail: earlierLines, signal })
    if (!lines) return
    for await (const line of lines) {
      if (signal.aborted) break
      if (!matchesLine(line, this.#pattern)) continue
      found(line.slice(0, shownLength))
      // It has done its work, and is not begun again.
      return
    }
    this.#isOver = true
  }
}
