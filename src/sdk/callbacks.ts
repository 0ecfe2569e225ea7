/** What calls the callbacks of the game: sessions of a game that takes several, maintenance, and the health check. */
import type { Logger } from '../contracts/logger.js'
import type { NumberedSessionConfig, SessionConfig } from '../rules/game/heartbeat.js'
import { afterAnswer, afterOwnEnd, noOwnSessions, reportOf } from '../rules/game/own-sessions.js'
import { isPromise } from '../rules/model/values.js'

/** One of several sessions that the game plays at the same time. */
export interface RunningSession extends SessionConfig {
  /** Distinguishes it from every other session of this server, also from one with the same id. Later sessions have higher numbers. */
  readonly number: number
  /** Reports that this session is over. The others go on, and the server may get another one. Later calls have no effect. */
  readonly end: () => void
  /**
   * Calls `fn` once when the host app or an operator wants this session to end. Calls it immediately if that is already so. `fn` should
   * end the match and then call `end()`.
   */
  readonly onEnd: (fn: () => void | Promise<void>) => void
}

export type SessionCallback = (session: RunningSession) => void | Promise<void>

interface Running {
  readonly session: RunningSession
  readonly callbacks: (() => void | Promise<void>)[]
  isEnding: boolean
}

export class RunningSessions {
  readonly #logger: Logger
  readonly #changed: () => void
  readonly #callbacks: SessionCallback[] = []
  readonly #running = new Map<number, Running>()
  #own = noOwnSessions

  /** `changed` is called when sessions have begun or the game has ended one. */
  constructor(logger: Logger, changed: () => void) {
    this.#logger = logger
    this.#changed = changed
  }

  /** True once the game has said that it takes several. */
  get areTaken(): boolean {
    return this.#callbacks.length > 0
  }

  get all(): readonly RunningSession[] {
    return [...this.#running.values()].map(({ session }) => session)
  }

  /** Fields of each heartbeat: none for a game that takes one session. */
  get report(): object {
    if (!this.areTaken) return {}
    const { running, ended } = reportOf(this.#own)
    return { Sessions: running.map(fieldsOf), EndedSessions: ended.map(fieldsOf) }
  }

  add(callback: SessionCallback): void {
    this.#callbacks.push(callback)
    for (const { session } of this.#running.values()) void this.#guarded(() => callback(session))
  }

  /** Call with the sessions of each answer that lists them. */
  listed(sessions: readonly NumberedSessionConfig[]): void {
    const { own, begun, ending } = afterAnswer(this.#own, sessions)
    this.#own = own
    for (const session of begun) this.#begin(session)
    for (const { number } of ending) this.#endSoon(number)
    if (begun.length > 0) this.#changed()
  }

  #begin({ ending: _, ...config }: NumberedSessionConfig): void {
    const callbacks: Running['callbacks'] = []
    const running: Running = {
      isEnding: false,
      callbacks,
      session: Object.freeze({
        ...config,
        end: () => this.#end(config.number),
        onEnd: (fn: () => void | Promise<void>) => {
          if (running.isEnding) void this.#guarded(fn)
          else callbacks.push(fn)
        },
      }),
    }
    this.#running.set(config.number, running)
    for (const callback of this.#callbacks) void this.#guarded(() => callback(running.session))
  }

  #endSoon(number: number): void {
    const running = this.#running.get(number)
    if (!running || running.isEnding) return
    running.isEnding = true
    for (const callback of running.callbacks) void this.#guarded(callback)
  }

  #end(number: number): void {
    if (!this.#running.delete(number)) return
    this.#own = afterOwnEnd(this.#own, number)
    this.#changed()
  }

  async #guarded(callback: () => void | Promise<void>): Promise<void> {
    try {
      await callback()
    } catch (err) {
      this.#logger.error({ err }, 'a callback for sessions failed')
    }
  }
}

function fieldsOf({ sessionID, number }: { readonly sessionID: string; readonly number: number }) {
  return { SessionId: sessionID, Number: number }
}

// Calls a game's `onMaintenance` callbacks, once for each announced time.

export type MaintenanceCallback = (beginsAt: Date) => void | Promise<void>

export class MaintenanceCallbacks {
  readonly #logger: Logger
  readonly #callbacks: MaintenanceCallback[] = []
  /** The last announced time in ms. Kept when an answer lacks it: a host that does not lead does not know it. */
  #lastAt: number | undefined

  constructor(logger: Logger) {
    this.#logger = logger
  }

  add(fn: MaintenanceCallback): void {
    this.#callbacks.push(fn)
    if (this.#lastAt !== undefined) void this.#call(fn, this.#lastAt)
  }

  /** Call with the time in every answer that has one. */
  announced(at: number): void {
    if (at === this.#lastAt) return
    this.#lastAt = at
    this.#logger.info({ beginsAt: new Date(at).toISOString() }, 'maintenance is announced')
    for (const callback of this.#callbacks) void this.#call(callback, at)
  }

  async #call(callback: MaintenanceCallback, at: number): Promise<void> {
    try {
      await callback(new Date(at))
    } catch (err) {
      this.#logger.error({ err }, 'an onMaintenance callback failed')
    }
  }
}

// Runs the game's health callback and keeps its failures out of the heartbeat loop.

export type HealthReporter = () => 'Healthy' | 'Unhealthy'

/**
 * If the callback throws, the server reports Unhealthy. If it returns a promise (possible in plain JavaScript), the server
 * reports Healthy. Either mistake is logged once.
 */
export function healthCheck(health: (() => boolean) | undefined, logger: Logger): HealthReporter {
  if (health === undefined) return () => 'Healthy'
  let logged = false
  const logOnce = (err: unknown, message: string) => {
    if (!logged) logger.error({ err }, message)
    logged = true
  }
  return () => {
    try {
      const verdict: unknown = health()
      if (isPromise(verdict)) {
        verdict.catch((err: unknown) => logOnce(err, 'the health callback rejected'))
        logOnce(undefined, 'the health callback returned a promise, which counts as healthy; return true or false')
      } else logged = false
      return verdict ? 'Healthy' : 'Unhealthy'
    } catch (err) {
      logOnce(err, 'the health callback threw, which counts as unhealthy')
      return 'Unhealthy'
    }
  }
}
