/**
 * Runs commands where games run, for games without an SDK. They cost more than probes over the network: a few run at once, and one per server,
 * so that commands that hang do not pile up where the system cannot end them.
 */
import type { ExecOptions, ExecResult } from '../../contracts/backend.js'
import { FleetError, messageOf } from '../../contracts/errors.js'
import { lastLineOf } from '../../rules/game/probes.js'
import { fairLimiter } from '../../util/limiter.js'
import { unlessAborted } from '../../util/signals.js'
import { withTimeout } from '../../util/with-timeout.js'
import type { EngineContext } from '../context.js'
import type { BuildEntry, ServerEntry } from '../state/entries.js'

const maxConcurrent = 16

export interface GameCommand extends Pick<ExecOptions, 'input'> {
  readonly command: readonly string[]
  readonly timeoutMs: number
  /** The number of the session that the command tells. It is not told again if the command has succeeded after its time. */
  readonly tells?: number
}

interface RunningCommand {
  /** Settles, without an error, once it has ended. */
  ended: Promise<unknown>
  hasStarted: boolean
}

export class GameCommands {
  readonly #ctx: EngineContext
  readonly #probes = fairLimiter<BuildEntry>(maxConcurrent)
  /** Players wait for these: no probe that hangs holds them up. */
  readonly #tells = fairLimiter<BuildEntry>(maxConcurrent)
  /** The command of each server that has not ended. */
  readonly #running = new Map<ServerEntry, RunningCommand>()
  /** The numbers of the sessions that commands have told. */
  readonly #told = new WeakMap<ServerEntry, number>()

  constructor(ctx: EngineContext) {
    this.#ctx = ctx
  }

  /**
   * Resolves once the command has exited with code 0. Otherwise rejects with the reason, as `Prober.check` does: `unavailable` if nothing was
   * heard of it in time, which begins when it is its turn, and `invalid` if it has said something else. If it was not started, which says
   * nothing about the game, the error has another `FleetError` as its cause.
   */
  run(entry: ServerEntry, { timeoutMs, ...given }: GameCommand): Promise<void> {
    const what = `command ${lastLineOf(given.command[0] ?? '')}`
    return (given.tells === undefined ? this.#probes : this.#tells)(entry.build, async () => {
      const { exitCode, output } = await this.#inTime(entry, given, what, timeoutMs)
      if (exitCode === 0) return
      const line = lastLineOf(output)
      throw new FleetError('invalid', `${what} exited with code ${exitCode}${line && `: ${line}`}`)
    })
  }

  async #inTime(entry: ServerEntry, given: Command, what: string, timeoutMs: number): Promise<ExecResult> {
    let hasStarted = false
    let isLate = () => false
    const onStarted = () => void (hasStarted = true)
    try {
      return await withTimeout(this.#ctx.clock, timeoutMs, what, (signal) => {
        isLate = () => signal.aborted
        return this.#exec(entry, given, { signal, onStarted })
      })
    } catch (error) {
      const failure = FleetError.is(error) ? error : new FleetError('unavailable', messageOf(error), { cause: error })
      if (hasStarted && failure.code === 'invalid')
        throw new FleetError('invalid', `${what} failed: ${failure.message}`)
      if (hasStarted && isLate()) throw failure
      throw new FleetError('unavailable', `${what} could not be run: ${failure.message}`, { cause: failure })
    }
  }

  /** Waits for the earlier command, which a backend may be unable to end, as long as the signal allows. */
  async #exec(
    entry: ServerEntry,
    { command, input, tells }: Command,
    { signal, onStarted }: { readonly signal: AbortSignal; readonly onStarted: () => void },
  ): Promise<ExecResult> {
    for (let earlier; (earlier = this.#running.get(entry));) {
      if (earlier.hasStarted) onStarted()
      await unlessAborted(earlier.ended, signal)
    }
    if (tells !== undefined && this.#told.get(entry) === tells) return { exitCode: 0, output: '' }
    const { backend } = this.#ctx
    const one: RunningCommand = { ended: Promise.resolve(), hasStarted: false }
    const started = () => {
      one.hasStarted = true
      onStarted()
    }
    const running = (async () => {
      if (!backend.exec) throw new FleetError('unsupported', 'the backend runs no commands')
      const options = { signal, onStarted: started, ...(input !== undefined && { input }) }
      return backend.exec(entry.ref, command, options)
    })()
    one.ended = running
      .then(
        ({ exitCode }) => tells !== undefined && exitCode === 0 && this.#told.set(entry, tells),
        () => {},
      )
      .finally(() => this.#running.delete(entry))
    this.#running.set(entry, one)
    return running
  }
}

type Command = Omit<GameCommand, 'timeoutMs'>
