/**
 * Stands in for the SDK of games that have none: probes each running server, reports to the engine what an SDK would, and tells the game of its
 * session. Only for servers whose build has `game`.
 */
import type { Instance } from '../../contracts/backend.js'
import { FleetError, messageOf } from '../../contracts/errors.js'
import type { ProbeAddress, Prober } from '../../contracts/prober.js'
import type { GameState, Heartbeat, HeartbeatAnswer, ParkedHeartbeat } from '../../rules/game/heartbeat.js'
import {
  afterFailedProbe,
  afterLostAnswer,
  afterPass,
  emptyEnd,
  expandedCommand,
  gameDefaults,
  gapAnswers,
  type GameSpec,
  isHealthy,
  type LivenessProbe,
  matchesLine,
  networkProbePort,
  playersProbePort,
  type Probed,
  sessionFile,
  sessionLine,
  type SessionNotice,
  unprobed,
} from '../../rules/game/probes.js'
import { afterFailure, noBackoff } from '../../rules/lifecycle/backoff.js'
import { lifeLimits } from '../../rules/lifecycle/health.js'
import { transition } from '../../rules/lifecycle/lifecycle.js'
import { keyOf, type Session } from '../../rules/model/resources.js'
import { sizeLimits, utf8Bytes } from '../../rules/model/sizes.js'
import { withTimeout } from '../../util/with-timeout.js'
import { backoffLimits, type EngineContext } from '../context.js'
import { setPendingReason } from '../reporting/start-failures.js'
import type { ServerEntry } from '../state/entries.js'
import { GameCommands } from './game-commands.js'

/** Of so many games that have answered before, not one answers only if it is this host that reaches none. */
const enoughGames = 3

interface ProbedGamesDependencies {
  readonly prober: Prober
  readonly heartbeat: (sessionHostId: string, heartbeat: Heartbeat) => HeartbeatAnswer
  readonly park: (sessionHostId: string, parked: ParkedHeartbeat) => (() => void) | undefined
}

/** What the games of a host have in common. */
interface Neighbours {
  /** Call when a game has answered. */
  answered(game: ProbedGame): void
  /** True if no game has answered since then, elapsed ms, so that a failure says nothing about one of them. */
  areSilentSince(elapsedMs: number): boolean
}

export class ProbedGames {
  readonly #ctx: EngineContext
  readonly #deps: ProbedGamesDependencies
  readonly #commands: GameCommands
  readonly #games = new Map<ServerEntry, ProbedGame>()
  #answeredAt = -Infinity
  /** Those that have answered. */
  readonly #answering = new Set<ProbedGame>()
  #isStopped = false
  #cancelBeat: (() => void) | undefined
  readonly #neighbours: Neighbours = {
    answered: (game) => {
      this.#answering.add(game)
      this.#answeredAt = this.#ctx.clock.elapsed()
    },
    areSilentSince: (elapsedMs) => this.#answering.size >= enoughGames && this.#answeredAt < elapsedMs,
  }

  constructor(ctx: EngineContext, deps: ProbedGamesDependencies) {
    this.#ctx = ctx
    this.#deps = deps
    this.#commands = new GameCommands(ctx)
  }

  /** Call when the process of a server is running. May be called again. */
  running(entry: ServerEntry): void {
    // What a backend only simulates sends its own heartbeats.
    if (!entry.build.record.spec.game || !this.#ctx.backend.capabilities.agent) return
    if (this.#games.has(entry) || this.#isStopped) return
    const over = () => {
      this.#games.delete(entry)
      this.#answering.delete(game)
    }
    const game: ProbedGame = new ProbedGame(
      this.#ctx,
      { ...this.#deps, commands: this.#commands, neighbours: this.#neighbours, over },
      entry,
      entry.build.record.spec.game,
    )
    this.#games.set(entry, game)
    this.#cancelBeat ??= this.#afterInterval()
    game.start()
  }

  /** Between probes, which may be far apart or take long, each game is heard as one with an SDK is. */
  #afterInterval(): () => void {
    return this.#ctx.clock.after(this.#ctx.limits.heartbeatIntervalMs, () => {
      this.#cancelBeat = this.#games.size > 0 ? this.#afterInterval() : undefined
      for (const game of [...this.#games.values()]) game.beat()
    })
  }

  stop(): void {
    this.#isStopped = true
    this.#cancelBeat?.()
    for (const game of this.#games.values()) game.stop()
    this.#games.clear()
    this.#answering.clear()
  }
}

/** How many of the lines that a game has printed before are read, for those that a host missed while it was away. */
const earlierLines = 1_000

interface ProbedGameDependencies extends ProbedGamesDependencies {
  readonly commands: GameCommands
  readonly neighbours: Neighbours
  /** Called when there is nothing to ask any more. */
  readonly over: () => void
}

class ProbedGame {
  readonly #ctx: EngineContext
  readonly #deps: ProbedGameDependencies
  readonly #entry: ServerEntry
  /** As it was when it was last reported as running. */
  #instance: Instance | undefined
  /** Since when its probes have failed, elapsed ms. */
  #failingSince: number | undefined
  #known: Probed
  #spec: GameSpec
  /** Whether the questions are those of a later template, because this host never knew the server's own. */
  readonly #isSpecGuessed: boolean
  #isReady: boolean
  /** Whether an earlier host has given it its session. */
  readonly #isInherited: boolean
  /** False until this host knows whether it answers: what its record says of it holds so long. */
  #isHeard = false
  /** The session for which the game has said who plays, in the answer that is reported next. */
  #saidFor: Session | undefined
  /** The number of the session that the game has been told of, or that it is not to be told of. */
  #told: number | undefined
  /** Since when the game starts with the session that it was told of, on the clock of its other times. */
  #startsSince: number | undefined
  #tellBackoff = noBackoff
  #isStopped = false
  /** Settles, without an error, once it is known whether the game has been told. */
  #telling: Promise<void> | undefined
  #log: LogWatch | undefined
  #cancelTimer = () => {}
  #cancelPark: (() => void) | undefined

  constructor(ctx: EngineContext, deps: ProbedGameDependencies, entry: ServerEntry, spec: GameSpec) {
    this.#ctx = ctx
    this.#deps = deps
    this.#entry = entry
    this.#spec = spec
    this.#known = { ...unprobed, players: entry.players }
    this.#isSpecGuessed = isOutdated(entry)
    // An earlier host may have told it, in words that its build no longer has.
    const [session] = entry.record.sessions
    if (this.#isSpecGuessed) this.#told = session?.number
    this.#isInherited = entry.record.state === 'Active'
    // After a restart of the host, what its record says holds.
    const { state } = entry.record
    const isServing = state === 'StandingBy' || state === 'Active'
    // A game that starts with its session may still be starting. Its log is not read for that again, beside the end of its session.
    const hasStarted = session?.number === this.#told || (session?.told && spec.readiness.log !== undefined)
    this.#isReady = isServing && (!spec.session?.startsGame || (session !== undefined && hasStarted === true))
    if (session?.told && !this.#isReady) this.#startsSince = ctx.responsiveClock.now()
  }

  /** Servers that are known to be ready are spread over seconds, because a host finds all of them at once. */
  start(): void {
    this.#after(this.#isReady ? this.#share(Math.min(this.#periodMs, spreadMs)) : 0)
  }

  /** Sends a heartbeat, if it is known whether the game answers. */
  beat(): void {
    this.#guarded(() => {
      if (this.#isHeard && this.#current()) this.#report()
    })
  }

  /** One game must not end the host, or the heartbeats of the others. */
  #guarded(work: () => void): void {
    try {
      work()
    } catch (error) {
      this.#ctx.logger.error({ server: keyOf(this.#entry.record), err: error }, 'a game could not be reported on')
    }
  }

  stop(): void {
    this.#isStopped = true
    this.#cancelTimer()
    this.#cancelPark?.()
    this.#log?.stop()
  }

  get #periodMs(): number {
    return 1_000 * (this.#spec.periodSeconds ?? gameDefaults.periodSeconds)
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
      if (this.#awaitsSession(spec)) this.#isHeard = true
      else await (this.#isReady ? this.#probe(spec) : this.#probeReadiness(spec))
      this.beat()
    } catch (error) {
      this.#ctx.logger.error({ server: keyOf(this.#entry.record), err: error }, 'a game could not be probed')
    }
    // Not ready yet, or not heard by this host, so that its silence counts: a second is soon enough.
    const isSettled = (this.#isReady || this.#awaitsSession(spec)) && this.#isHeard
    const ms = isSettled ? this.#periodMs : Math.min(this.#periodMs, startingPeriodMs)
    const now = this.#ctx.clock.elapsed()
    this.#after(nextTurn(now + ms * 0.9 + this.#share(ms * 0.2)) - now)
  }

  /**
   * What to ask the game, or undefined once its server has ended. A server keeps its questions while its build has another template, an invalid
   * spec, or none for games without an SDK.
   */
  #current(): GameSpec | undefined {
    const { instance, record } = this.#entry
    // A late report of the backend may say again that it is pending.
    if (instance?.phase === 'running') this.#instance = instance
    const isRunning = instance !== undefined && instance.phase !== 'exited' && record.state !== 'Terminating'
    const isKnown = this.#ctx.inventory.servers.get(keyOf(record)) === this.#entry
    if (!this.#isStopped && isRunning && isKnown) {
      const { conditions, spec } = this.#entry.build.record
      const isInvalid = conditions.some(({ type }) => type === 'Invalid')
      if (spec.game && !isInvalid && !isOutdated(this.#entry)) this.#spec = spec.game
      return this.#spec
    }
    if (!this.#isStopped) {
      this.stop()
      this.#deps.over()
    }
    return undefined
  }

  async #probeReadiness({ readiness, timeoutSeconds = gameDefaults.timeoutSeconds }: GameSpec): Promise<void> {
    const { log, runningSeconds } = readiness
    const { responsiveClock } = this.#ctx
    this.#isHeard = true
    if (runningSeconds !== undefined) {
      const { runningSince = responsiveClock.now() } = this.#entry
      this.#isReady = responsiveClock.now() - runningSince >= runningSeconds * 1_000
      if (!this.#isReady) this.#explain(`not ready yet: it runs for less than ${runningSeconds} s`)
    } else if (log !== undefined) {
      this.#explain(`not ready yet: no line of its log has ${JSON.stringify(log)}`)
      this.#follow('readiness', log, undefined, () => {
        this.#isReady = true
        this.#after(0)
      })
    } else {
      try {
        await this.#check(readiness, timeoutSeconds * 1_000)
        this.#deps.neighbours.answered(this)
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
    let note: string | undefined
    const ask = async () => {
      const [alive, report] = await Promise.allSettled([
        liveness && this.#check(liveness, timeoutMs),
        players && prober.players(players, this.#address(playersProbePort(players)), timeoutMs),
      ])
      if (alive.status === 'rejected') {
        // Who plays is known although the backend runs no commands.
        const isKnown = report.status === 'fulfilled' && report.value !== undefined
        if (!isKnown || !wasNotAsked(alive.reason)) throw alive.reason
        note = `it could not be asked whether it works: ${messageOf(alive.reason)}`
      }
      if (report.status === 'fulfilled') return report.value
      if (!liveness) throw report.reason
      // With a probe of its own for liveness, an unanswered query says nothing about the game.
      this.#unsaid(messageOf(report.reason))
      return undefined
    }
    const asksNothing = !liveness && !players
    const [session] = this.#entry.record.sessions
    try {
      const report = await ask()
      if (!asksNothing) this.#deps.neighbours.answered(this)
      if (report) this.#saidFor = session
      this.#isHeard = true
      if (report || !players) this.#explain(note)
      this.#failingSince = undefined
      this.#known = afterPass(this.#known, report, this.#ctx.clock.elapsed())
    } catch (error) {
      this.#failed(spec, error)
    }
  }

  async #check(probe: LivenessProbe, timeoutMs: number): Promise<void> {
    const { command } = probe
    if (command) {
      // So that its time does not pass while another command of the server runs.
      await this.#telling
      return this.#deps.commands.run(this.#entry, { command: this.#expanded(command), timeoutMs })
    }
    return this.#deps.prober.check(probe, this.#address(networkProbePort(probe)), timeoutMs)
  }

  get #isProcess(): boolean {
    return this.#ctx.backend.capabilities.template.startsWith('process')
  }

  /** A process listens on its public ports, and a game in a container on those of its container. */
  #expanded(command: readonly string[]): readonly string[] {
    const ports = (this.#instance?.ports ?? []).map((port) => ({
      container: port.container,
      listening: this.#isProcess ? port.public : port.container,
    }))
    return expandedCommand(command, { ...this.#entry.ref, ports })
  }

  /** Without an answer, a session ends neither as empty nor as unclaimed. */
  #unsaid(reason: string): void {
    this.#explain(`who plays is not known: ${reason}`)
    if (this.#known.unsaid !== gapAnswers) return
    this.#ctx.logger.warn({ server: keyOf(this.#entry.record), reason }, 'game does not say who plays')
  }

  #failed(spec: GameSpec, error: unknown): void {
    const { clock, logger } = this.#ctx
    const reason = messageOf(error)
    const wasHealthy = isHealthy(this.#known, spec)
    this.#failingSince ??= clock.elapsed()
    this.#explain(`it does not answer: ${reason}`)
    // It may lack the port that its build has now, or speak another protocol. The rolling update replaces it.
    if (this.#isSpecGuessed) {
      this.#isHeard = true
      this.#known = afterLostAnswer(this.#known)
      return
    }
    // What answers wrongly, or refuses, is there.
    const isUnasked = wasNotAsked(error)
    if (
      isUnasked ||
      (FleetError.is(error, 'unavailable') && this.#deps.neighbours.areSilentSince(this.#failingSince))
    ) {
      logger.debug(
        { server: keyOf(this.#entry.record), reason },
        'no game could be asked, or none answers; none counts as Unhealthy for that',
      )
      this.#known = afterLostAnswer(this.#known)
      // It runs, as its backend says. Without a heartbeat it would count as silent.
      if (isUnasked) this.#isHeard = true
      return
    }
    this.#known = afterFailedProbe(this.#known)
    if (isHealthy(this.#known, spec)) return
    this.#isHeard = true
    if (!wasHealthy) return
    const { failures } = this.#known
    logger.warn({ server: keyOf(this.#entry.record), failures, reason }, 'game does not answer its probes')
  }

  /** What people see of the server while it is not as it should be. */
  #explain(reason: string | undefined): void {
    setPendingReason(this.#ctx, this.#entry, reason)
  }

  /** Throws if the port is not reachable yet. */
  #address(port: number | undefined): ProbeAddress {
    const { address, inside, ports = [] } = this.#instance ?? {}
    const pair = port === undefined ? ports[0] : ports.find(({ container }) => container === port)
    const host = inside?.host ?? address
    if (!pair || host === undefined) throw new Error(`port ${port ?? 'of the game'} has no address yet`)
    return { host, port: inside?.ports === 'container' ? pair.container : pair.public }
  }

  /** Sends the heartbeat that an SDK would send, and does what its answer asks for. */
  #report(): void {
    const spec = this.#spec
    const { record } = this.#entry
    const isTold = record.state === 'Active' && this.#hasBeenTold(record.sessions[0])
    if (record.state === 'Active') this.#watchForEnd(spec)
    // Also if its build had it start with its session until now.
    const isServing = this.#isReady || record.state === 'StandingBy' || isTold || this.#awaitsSession(spec)
    const answer = this.#beat(spec, isTold && this.#isReady ? 'Active' : isServing ? 'StandingBy' : 'Initializing')
    if (answer.operation === 'Active') this.#allocated()
    else if (answer.operation === 'Continue' && !answer.isElsewhere && isServing && !isTold) this.#park()
  }

  #hasBeenTold(session: Session | undefined): boolean {
    if (!session || session.told || session.number === this.#told) return true
    if (this.#spec.session) return false
    // Also if its build gets words for it later: its match is under way.
    this.#told = session.number
    return true
  }

  /** True while there is nothing to ask, because the game starts with its session. */
  #awaitsSession({ session }: GameSpec): boolean {
    if (!session?.startsGame || this.#isReady) return false
    const { sessions, state } = this.#entry.record
    return state !== 'Active' || !this.#hasBeenTold(sessions[0])
  }

  #beat(spec: GameSpec, state: GameState): HeartbeatAnswer {
    const { hostId, record } = this.#entry
    const isNews = this.#saidFor !== undefined && this.#saidFor === record.sessions[0]
    this.#saidFor = undefined
    const health = isHealthy(this.#known, spec) && !this.#startsLate() ? 'Healthy' : 'Unhealthy'
    const { players } = this.#known
    return this.#deps.heartbeat(hostId, { state, health, players, ...(!isNews && { arePlayersOld: true }) })
  }

  /** True if the game should have started with its session by now. That is shown, and ends no session. */
  #startsLate(): boolean {
    if (this.#startsSince === undefined || this.#isReady) return false
    const { lateStartMs } = lifeLimits(this.#entry.build.record.spec.health, this.#ctx.limits)
    return this.#ctx.responsiveClock.now() - this.#startsSince >= lateStartMs
  }

  /** Waits for a session, so that the game learns of it at once. */
  #park(): void {
    this.#cancelPark = this.#deps.park(this.#entry.hostId, {
      waitMs: Infinity,
      answer: (answer) => {
        // Not within the change that has led to it.
        if (answer.operation === 'Active') this.#ctx.clock.after(0, () => this.#guarded(() => this.#allocated()))
      },
    })
  }

  /** The server has a session: tells the game, and then the fleet that it has it. */
  #allocated(): void {
    const spec = this.#current()
    const session = this.#entry.record.sessions[0]
    if (!spec || !session || this.#telling) return
    // Before the game can say that it is over.
    this.#watchForEnd(spec)
    if (this.#hasBeenTold(session) || !spec.session) {
      if (this.#isReady) this.#beat(spec, 'Active')
      return
    }
    if (this.#ctx.clock.elapsed() < this.#tellBackoff.until) return
    this.#telling = this.#tell(session, spec.session)
  }

  /**
   * If it fails, a later heartbeat tries again, with a back-off: a line whose way to the game is not known may then come twice, as it may from the
   * next host if this one dies here.
   */
  async #tell(session: Session, notice: SessionNotice): Promise<void> {
    const { clock, inventory, logger } = this.#ctx
    const { ref } = this.#entry
    try {
      await this.#notify(session, notice)
      this.#told = session.number
      if (this.#current() === undefined) return
      const event = { type: 'sessionTold' as const, number: session.number }
      inventory.update(this.#entry, transition(this.#entry.record, event, clock.now()))
      this.#report()
      if (this.#isReady) return
      this.#startsSince = this.#ctx.responsiveClock.now()
      this.#after(0)
    } catch (error) {
      this.#tellBackoff = afterFailure(this.#tellBackoff, clock.elapsed(), backoffLimits(this.#ctx))
      logger.warn({ server: keyOf(ref), err: error }, 'game could not be told of its session; will retry')
    } finally {
      this.#telling = undefined
    }
  }

  async #notify(session: Session, { stdin, command, file }: SessionNotice): Promise<void> {
    const { backend, clock, limits } = this.#ctx
    const { ref } = this.#entry
    const { commands } = this.#deps
    const timeoutMs = tellTimeoutMs
    if (command) {
      const words = this.#expanded(command).map((word) => sessionLine(word, session))
      if (utf8Bytes(words.join(' ')) > maxCommandBytes) {
        throw new Error(`the command has more than ${maxCommandBytes / 1_024} KiB with what it says of the session`)
      }
      return commands.run(this.#entry, { command: words, timeoutMs, tells: session.number })
    }
    if (file !== undefined) {
      const [path = file] = this.#expanded([file])
      return commands.run(this.#entry, {
        ...sessionFile(path, session, this.#isProcess),
        timeoutMs,
        tells: session.number,
      })
    }
    const line = `${sessionLine(stdin ?? '', session)}\n`
    if (utf8Bytes(line) > sizeLimits.stdinLineBytes + 1) {
      throw new Error(`the line has more than ${sizeLimits.stdinLineBytes} bytes`)
    }
    return withTimeout(clock, limits.callTimeoutMs, `the line for ${ref.name}`, async (signal) =>
      backend.writeStdin?.(ref, line, { signal }),
    )
  }

  /** Ends the server if its session is over. */
  #watchForEnd({ end, session }: GameSpec): void {
    // Its log is read for its start.
    if (!this.#isReady && this.#spec.readiness.log !== undefined) return
    const reason = emptyEnd(this.#known, this.#entry.hadPlayers, this.#spec)
    if (reason !== undefined) this.#end(reason)
    // What the game printed before its session says nothing about it; what it printed while its log was not read may.
    const hasReadStart = session?.startsGame && this.#spec.readiness.log !== undefined
    const mayHaveMissed = this.#isInherited || hasReadStart || this.#log?.isOf('end')
    const tail = mayHaveMissed ? earlierLines : 0
    if (end?.log !== undefined) this.#follow('end', end.log, tail, (line) => this.#end(`its log says: ${line}`))
  }

  #end(reason: string): void {
    const { clock, inventory } = this.#ctx
    if (this.#current() === undefined) return
    const event = { type: 'end' as const, reason: 'Exited' as const, message: `the session is over: ${reason}` }
    inventory.update(this.#entry, transition(this.#entry.record, event, clock.now()))
  }

  /** Reads the log until a line matches. Goes on where it is being read for the same; begins again if that has ended. */
  #follow(purpose: LogPurpose, pattern: string, tail: number | undefined, found: (line: string) => void): void {
    if (this.#log?.isReading(purpose, pattern)) return
    this.#log?.stop()
    const log: LogWatch = new LogWatch(this.#ctx, this.#entry, {
      ...{ purpose, pattern, tail },
      found: (line) => this.#guarded(() => (this.#log === log && !this.#isStopped ? found(line) : undefined)),
      failed: (reason) => {
        if (!this.#isReady) this.#explain(`not ready yet: its log cannot be read: ${reason}`)
      },
    })
    this.#log = log
  }
}

/** The backend could not run a command, which says nothing about the game. */
function wasNotAsked(error: unknown): boolean {
  return FleetError.is(error, 'unavailable') && FleetError.is(error.cause)
}

function isOutdated({ build, record }: ServerEntry): boolean {
  return record.templateHash !== build.templateHash
}

/** How long the command may take that tells a game of its session, in ms. */
const tellTimeoutMs = 30_000
/** What fits into the address of a request to a cluster, and into a process. */
const maxCommandBytes = 32 * 1_024
/** Probes that are due at about the same time go out together: each on its own takes three times as much CPU. */
const turnMs = 200

function nextTurn(dueMs: number): number {
  return Math.ceil(dueMs / turnMs) * turnMs
}

/** The longest time between two probes of a server that is starting, in ms. */
const startingPeriodMs = 1_000
/** The time over which a host that begins to lead spreads its first probes, in ms. */
const spreadMs = 5_000

/** How much of a line a message shows. */
const shownLength = 200

type LogPurpose = 'readiness' | 'end'

interface LogWatchOptions {
  readonly purpose: LogPurpose
  readonly pattern: string
  /** How many earlier lines to read. Default: all. */
  readonly tail: number | undefined
  readonly found: (line: string) => void
  readonly failed: (reason: string) => void
}

/** Follows the log of a server until a line matches. */
class LogWatch {
  readonly #options: LogWatchOptions
  readonly #abort = new AbortController()
  #isOver = false

  constructor(ctx: EngineContext, entry: ServerEntry, options: LogWatchOptions) {
    this.#options = options
    void this.#read(ctx, entry).catch((error: unknown) => {
      this.#isOver = true
      if (this.#abort.signal.aborted) return
      options.failed(messageOf(error))
      ctx.logger.debug({ server: keyOf(entry.record), err: error }, 'log could not be followed; will retry')
    })
  }

  /** True also once the line was found: it is not searched for again. */
  isReading(purpose: LogPurpose, pattern: string): boolean {
    return !this.#isOver && purpose === this.#options.purpose && pattern === this.#options.pattern
  }

  isOf(purpose: LogPurpose): boolean {
    return purpose === this.#options.purpose
  }

  stop(): void {
    this.#abort.abort()
  }

  async #read({ backend }: EngineContext, { ref }: ServerEntry): Promise<void> {
    const { found, pattern, tail } = this.#options
    const { signal } = this.#abort
    const lines = backend.logs?.(ref, { follow: true, ...(tail !== undefined && { tail }), signal })
    if (!lines) return
    for await (const line of lines) {
      if (signal.aborted) return
      if (!matchesLine(line, pattern)) continue
      found(line.slice(0, shownLength))
      return
    }
    this.#isOver = true
  }
}
