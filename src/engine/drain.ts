/**
 * Empties a server, a build or the whole fleet: idle servers end, Active ones go on to their end, unless it is asked to
 * end them too. Says how far it is after every server that has gone.
 */
import type { Clock } from '../clock.js'
import { FleetError } from '../errors.js'
import type { Drained, DrainOptions } from '../options.js'
import { isIdle, type ServerEvent, transition } from '../rules/lifecycle.js'
import type { EngineContext } from './context.js'
import type { ServerEntry } from './entries.js'

export interface DrainScope {
  /** For messages: `the fleet`, `build arena`, `server arena-x7k2p`. */
  readonly what: string
  /** What is still there of it. */
  entries(): Iterable<ServerEntry>
}

export interface Drainer {
  /** Resolves when all are gone, at the deadline, or when the engine stops. */
  drain(scope: DrainScope, options: DrainOptions): Promise<Drained>
  /** Tells that a server which was being handed out is nobody's after all. */
  released(entry: ServerEntry): void
  /** Tells that a server is gone. */
  removed(): void
  /** Whoever waits is told what is left: on this host nobody will see the end of it. */
  stop(): void
}

interface Waiting {
  look(): void
  over(): void
}

export function drainer(ctx: EngineContext): Drainer {
  const { clock, inventory } = ctx
  const waiting = new Set<Waiting>()
  /** Spared because they were being handed out: should that come to nothing, they end like the others. */
  const spared = new WeakMap<ServerEntry, ServerEvent>()

  function begin(scope: DrainScope, active: NonNullable<DrainOptions['active']>): void {
    const event = { type: 'end' as const, reason: 'Drained' as const, message: `${scope.what} is being drained` }
    for (const entry of [...scope.entries()]) {
      if (active === 'wait') {
        if (!isIdle(entry.record)) continue
        if (entry.intent) {
          // As good as Active.
          spared.set(entry, event)
          continue
        }
      }
      inventory.update(entry, transition(entry.record, event, clock.now()))
    }
  }

  return {
    async drain(scope, { active = 'wait', deadlineMs, signal }) {
      begin(scope, active)
      const count = () => {
        let remaining = 0
        let matches = 0
        for (const entry of scope.entries()) {
          remaining++
          if (entry.record.state === 'Active') matches++
        }
        const message = `draining ${scope.what}: ${remaining} servers left, ${matches} of them with a match`
        ctx.emitter.emit({ type: 'DrainProgress', at: clock.now(), message, remaining, active: matches })
        return remaining
      }
      const remaining = await untilNone(clock, count, waiting, deadlineMs, signal)
      return { remaining }
    },

    released(entry) {
      const event = spared.get(entry)
      if (event && isIdle(entry.record)) inventory.update(entry, transition(entry.record, event, clock.now()))
    },

    removed() {
      for (const { look } of [...waiting]) look()
    },

    stop() {
      for (const { over } of [...waiting]) over()
    },
  }
}

/** Resolves with what is left: 0, or more at the deadline. */
function untilNone(
  clock: Clock,
  count: () => number,
  waiting: Set<Waiting>,
  deadlineMs: number | undefined,
  signal: AbortSignal | undefined,
): Promise<number> {
  return new Promise((resolve, reject) => {
    const stop = () => {
      cancel()
      waiting.delete(self)
      signal?.removeEventListener('abort', aborted)
    }
    const look = () => {
      if (count() > 0) return
      stop()
      resolve(0)
    }
    const aborted = () => {
      stop()
      reject(new FleetError('aborted', 'waiting for the drain was aborted; what was begun goes on'))
    }
    const over = () => {
      stop()
      resolve(count())
    }
    const cancel = deadlineMs === undefined ? () => {} : clock.after(deadlineMs, over)
    const self = { look, over }
    waiting.add(self)
    signal?.addEventListener('abort', aborted, { once: true })
    look()
  })
}
