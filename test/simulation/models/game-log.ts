/** What a game prints, and how hosts read it: lines come late, and streams are refused or break. */
import type { LogsOptions } from '../../../src/contracts/backend.js'
import { FleetError } from '../../../src/contracts/errors.js'
import type { Host } from '../world/host.js'
import type { World } from '../world/world.js'

export class GameLog {
  readonly #lines: string[] = []
  /** Called when there is something to read. */
  #waiting: (() => void)[] = []
  /** True once its game has ended. */
  #isOver = false

  print(line: string): void {
    this.#lines.push(line)
    this.#wake()
  }

  end(): void {
    this.#isOver = true
    this.#wake()
  }

  async *follow(world: World, host: Host, { signal, tail }: LogsOptions): AsyncIterableIterator<string> {
    const brokenAt = world.fault('log: stream breaks', 0.2) ? world.elapsedMs + world.between(0, 30_000) : Infinity
    const start = tail === undefined ? 0 : Math.max(0, this.#lines.length - tail)
    for (let next = start; ; next++) {
      const isBroken = () => world.elapsedMs >= brokenAt || signal?.aborted === true
      while (next >= this.#lines.length && !this.#isOver && !isBroken()) {
        await new Promise<void>((resolve) => {
          this.#waiting.push(resolve)
          signal?.addEventListener('abort', () => resolve(), { once: true })
          if (brokenAt < Infinity) world.after(brokenAt - world.elapsedMs, resolve)
        })
        await onHost(world, host, world.between(0, 200))
      }
      const line = this.#lines[next]
      if (line === undefined || isBroken()) return
      yield line
    }
  }

  #wake(): void {
    for (const wake of this.#waiting.splice(0)) wake()
  }
}

/** Reads the log of a game from afar. */
export async function* readLog(
  world: World,
  host: Host,
  find: () => GameLog | undefined,
  options: LogsOptions = {},
): AsyncIterableIterator<string> {
  await onHost(world, host, world.between(0, 100))
  const log = find()
  if (!log) throw new FleetError('not-found', 'there is no such log')
  if (world.fault('log: refused', 0.05)) throw new FleetError('unavailable', 'the log cannot be read')
  yield* log.follow(world, host, options)
}

/** Resolves on a host that still runs then. */
function onHost(world: World, host: Host, ms: number): Promise<void> {
  return new Promise((resolve) => void world.after(ms, () => host.run(resolve)))
}
