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
}

export class GameCommands {
  readonly #ctx: EngineContext
  readonly #limited = fairLimiter<BuildEntry>(maxConcurrent)
  /** The command of each server that has not ended. */
  readonly #running = new Map<ServerEntry, Promise<unknown>>()

  constructor(ctx: EngineContext) {
    this.#ctx = ctx
  }

  /**
   * Resolves once the command has exited with code 0. Otherwise rejects with the reason, as `Prober.check` does: `unavailable` if nothing was
   * heard of it in time, which begins when it is its turn, and `invalid` if it has said something else. If the backend cannot run it, which says
   * nothing about the game, the error has that of the backend as its cause.
   */
  run(entry: ServerEntry, { command, timeoutMs, input }: GameCommand): Promise<void> {
    const what = `command ${lastLineOf(command[0] ?? '')}`
    return this.#limited(entry.build, async () => {
      const { exitCode, output } = await withTimeout(this.#ctx.clock, timeoutMs, what, (signal) =>
        this.#exec(entry, command, what, { signal, ...(input !== undefined && { input }) }),
      )
      if (exitCode === 0) return
      const line = lastLineOf(output)
      throw new FleetError('invalid', `${what} exited with code ${exitCode}${line && `: ${line}`}`)
    })
  }

  /** Waits for the earlier command, which a backend may be unable to end, as long as the signal allows. */
  async #exec(
    entry: ServerEntry,
    command: readonly string[],
    what: string,
    options: ExecOptions & { readonly signal: AbortSignal },
  ): Promise<ExecResult> {
    for (let earlier; (earlier = this.#running.get(entry));) await unlessAborted(earlier, options.signal)
    const { backend } = this.#ctx
    const running = (async () => {
      if (!backend.exec) throw new FleetError('unsupported', 'the backend runs no commands')
      return backend.exec(entry.ref, command, options)
    })()
    const ended = running.then(
      () => this.#running.delete(entry),
      () => this.#running.delete(entry),
    )
    this.#running.set(entry, ended)
    try {
      return await running
    } catch (error) {
      if (FleetError.is(error, 'invalid')) throw new FleetError('invalid', `${what} failed: ${error.message}`)
      throw new FleetError('unavailable', `${what} could not be run: ${messageOf(error)}`, { cause: error })
    }
  }
}
