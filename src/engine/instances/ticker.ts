/**
 * Runs the periodic checks once a second. A late tick means that the host was suspended or blocked and may have missed
 * heartbeats, so every server gets its full timeout again.
 */
import type { Clock } from '../../contracts/clock.js'
import type { EngineContext } from '../context.js'
import type { DetailWriter } from '../persistence/detail-writer.js'
import type { Activity } from '../reporting/activity.js'
import type { DemandRecorder } from '../reporting/demand-recorder.js'
import type { InstanceWatcher } from './instance-watcher.js'
import { lateTickMs, type ResponsiveClock, tickMs } from '../responsive-clock.js'
import type { Timeouts } from './timeouts.js'

export interface TickerDependencies {
  readonly timeouts: Pick<Timeouts, 'check' | 'restartTimers'>
  readonly watcher: Pick<InstanceWatcher, 'destroyOrphans' | 'restartTimers'>
  readonly details: Pick<DetailWriter, 'flush'>
  readonly activity: Pick<Activity, 'tick'>
  readonly demand: Pick<DemandRecorder, 'tick'>
}

export class Ticker {
  readonly #clock: Clock
  readonly #responsiveClock: ResponsiveClock
  readonly #deps: TickerDependencies
  #lastTick = 0
  #cancelTimer = () => {}

  constructor({ clock, responsiveClock }: EngineContext, deps: TickerDependencies) {
    this.#clock = clock
    this.#responsiveClock = responsiveClock
    this.#deps = deps
  }

  start(): void {
    this.#lastTick = this.#clock.elapsed()
    this.#schedule()
  }

  stop(): void {
    this.#cancelTimer()
  }

  #schedule(): void {
    this.#cancelTimer = this.#clock.after(tickMs, () => this.#tick())
  }

  #tick(): void {
    const { timeouts, watcher, details, activity, demand } = this.#deps
    const now = this.#clock.elapsed()
    const lateMs = Math.max(0, now - this.#lastTick - tickMs)
    this.#lastTick = now
    this.#responsiveClock.tick(lateMs)
    if (lateMs > lateTickMs) {
      timeouts.restartTimers()
      watcher.restartTimers()
    }
    timeouts.check()
    watcher.destroyOrphans()
    details.flush()
    activity.tick()
    demand.tick()
    this.#schedule()
  }
}
