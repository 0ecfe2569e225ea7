/**
 * Empties a server, a build or the whole fleet: idle servers end, Active ones go on to their end, unless it is asked to
 * end them too. Says how far it is after every server that has gone.
 */
import type { Clock } from '../../contracts/clock.js'
import { FleetError } from '../../contracts/errors.js'
import type { DrainResult, DrainOptions } from '../../contracts/options.js'
import { isIdle, transition } from '../../rules/lifecycle/lifecycle.js'
import type { EngineContext } from '../context.js'
import type { ServerEntry } from '../state/entries.js'

export interface DrainScope {
  /** For messages: `the fleet`, `build arena`, `server arena-x7k2p`. */
  readonly what: string
  /** What is still there of it. */
  entries(): Iterable<ServerEntry>
  /** An operator wants it back: what is still there of it stays. */
  isResumed(): boolean
}

export interface Drainer {
  /** Resolves when all are gone, at the deadline, when its scope is resumed, or when the engine stops. */
  drain(scope: DrainScope, options: DrainOptions): Promise<DrainResult>
  /** Tells that a server which was being handed out is nobody's after all. */
  released(entry: ServerEntry): void
  /** Tells that a server is gone, or that a scope is resumed. */
  look(): void
  /** Whoever waits is told what is left: on this host nobody will see the end of it. */
  stop(): void
}

interface Waiting {
  look(): void
  over(): void
}

interface Wait {
  /** There may be some left, but nobody is to wait for them any more. */
  isOver(): boolean
  count(): number
  readonly deadlineMs: number | undefined
  readonly signal: AbortSignal | undefined
}

export function drainer(ctx: EngineContext): Drainer {
  const { clock, inventory } = ctx
  const waiting = new Set<Waiting>()
  /** Spared because they were being handed out: should that come to nothing, they end like the others. */
  const spared = new WeakMap<ServerEntry, DrainScope>()

  function begin(scope: DrainScope, active: NonNullable<DrainOptions['active']>): void {
    for (const entry of [...scope.entries()]) {
      if (active !== 'terminate') {
        if (!isIdle(entry.record)) continue
        if (entry.intent) {
          // As good as Active.
          spared.set(entry, scope)
          continue
        }
      }
      end(entry, scope)
    }
  }

  function end(entry: ServerEntry, { what }: DrainScope): void {
    const event = { type: 'end' as const, reason: 'Drained' as const, message: `${what} is being drained` }
    inventory.update(entry, transition(entry.record, event, clock.now()))
  }

  return {
    async drain(scope, { active = 'wait', deadlineMs, signal }) {
      const isOver = () => scope.isResumed() || ctx.stopped()
      // That may have come while the condition of the build was being written.
      if (isOver()) return { remaining: [...scope.entries()].length }
      begin(scope, active)
      let told: number | undefined
      const count = () => {
        let remaining = 0
        let matches = 0
        for (const entry of scope.entries()) {
          remaining++
          if (entry.record.state === 'Active') matches++
        }
        if (remaining === told) return remaining
        told = remaining
        const message = `draining ${scope.what}: ${remaining} servers left, ${matches} of them with a match`
        ctx.emitter.emit({ type: 'DrainProgress', at: clock.now(), message, remaining, active: matches })
        return remaining
      }
      const remaining = await untilOver(clock, waiting, { isOver, count, deadlineMs, signal })
      return { remaining }
    },

    released(entry) {
      const scope = spared.get(entry)
      if (scope && !scope.isResumed() && isIdle(entry.record)) end(entry, scope)
    },

    look() {
      for (const { look } of [...waiting]) look()
    },

    stop() {
      for (const { over } of [...waiting]) over()
    },
  }
}

/** Resolves with what is left: 0, or more when it is over before. */
function untilOver(clock: Clock, waiting: Set<Waiting>, { isOver, count, deadlineMs, signal }: Wait): Promise<number> {
  return new Promise((resolve, reject) => {
    const stop = () => {
      cancel()
      waiting.delete(self)
      signal?.removeEventListener('abort', aborted)
    }
    const over = () => {
      stop()
      resolve(count())
    }
    const look = () => {
      if (isOver() || count() === 0) over()
    }
    const aborted = () => {
      stop()
      reject(new FleetError('aborted', 'waiting for the drain was aborted; what was begun goes on'))
    }
    const cancel = deadlineMs === undefined ? () => {} : clock.after(deadlineMs, over)
    const self = { look, over }
    waiting.add(self)
    signal?.addEventListener('abort', aborted, { once: true })
    if (signal?.aborted) aborted()
    else look()
  })
}
