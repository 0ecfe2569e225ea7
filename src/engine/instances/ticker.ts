/**
 * What is looked at every second. One that comes late means that the host was away meanwhile, and that nobody knows what was
 * said to it: all get their full allowance again.
 */
import type { EngineContext } from '../context.js'
import type { DetailWriter } from '../persistence/detail-writer.js'
import type { Timeouts } from './timeouts.js'
import type { InstanceWatcher } from './instance-watcher.js'

export interface Ticker {
  start(): void
  stop(): void
}

export interface TickerDependencies {
  readonly timeouts: Timeouts
  readonly watcher: Pick<InstanceWatcher, 'destroyOrphans' | 'restartTimers'>
  readonly details: Pick<DetailWriter, 'flush'>
}

const tickMs = 1_000
/** A tick this late means that the host was away. */
const awayMs = 2_000

export function ticker({ clock, responsiveClock: listening }: EngineContext, parts: TickerDependencies): Ticker {
  let lastTick = 0
  let stop = () => {}

  function wait(): void {
    stop = clock.after(tickMs, tick)
  }

  function tick(): void {
    const now = clock.elapsed()
    const lateMs = Math.max(0, now - lastTick - tickMs)
    lastTick = now
    listening.exclude(lateMs)
    if (lateMs > awayMs) {
      parts.timeouts.restartTimers()
      parts.watcher.restartTimers()
    }
    parts.timeouts.check()
    parts.watcher.destroyOrphans()
    parts.details.flush()
    wait()
  }

  return {
    start() {
      lastTick = clock.elapsed()
      wait()
    },
    stop: () => stop(),
  }
}
