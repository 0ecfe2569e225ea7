/**
 * A game server as its own process sees it: its state, its session, its players, and being told to end. Nothing here
 * throws at the game or ends it: callbacks are guarded, and an agent that is away is only waited for.
 */
import type { GameState, SessionConfig } from '../rules/game/heartbeat.js'
import type { Logger } from '../contracts/logger.js'
import type { AgentClient } from './agent-client.js'
import { type Answer, readAnswer } from './answer.js'
import type { GameServerConfig } from './config.js'
import type { Logs } from './logs.js'
import { startHeartbeatLoop } from './heartbeat-loop.js'
import { processHold } from './timers.js'
import { intervalOf, type SdkTiming } from './timing.js'

export type SdkState = Extract<GameState, 'Initializing' | 'StandingBy' | 'Active' | 'Terminating'>

/** Its functions may be taken off it: `const { readyForPlayers, logs } = await start()`. */
export interface Gsdk {
  readonly config: GameServerConfig
  readonly logs: Logs
  readonly state: SdkState
  /** The allocated session; undefined before. */
  readonly session: SessionConfig | undefined
  /**
   * Reports StandingBy and resolves with the session once this server is allocated; a second call returns the same
   * promise. It keeps the process alive while it waits. It never rejects, and stays pending when the server ends without
   * ever being allocated: `onTerminate` tells that.
   */
  readonly readyForPlayers: () => Promise<SessionConfig>
  /** Reports who is connected now: the whole list, each time it changes. */
  readonly updateConnectedPlayers: (ids: readonly string[]) => void
  /**
   * Calls `fn` once when the fleet asks this server to end, over its heartbeats or with SIGTERM: `fn` says goodbye and ends
   * the process, which is killed when its grace period is over. At once when that was asked before.
   */
  readonly onTerminate: (fn: () => void | Promise<void>) => void
  /** Ends heartbeats for good, lets go of SIGTERM, and ignores what the agent still answers. */
  readonly stop: () => void
}

export interface GsdkParts {
  readonly config: GameServerConfig
  readonly logs: Logs
  readonly logger: Logger
  readonly timing: SdkTiming
  readonly client: AgentClient
  readonly handleSigterm: boolean
  readonly health?: () => boolean
}

/** Told to the agent once. A test keeps it equal to the package's version. */
export const introduction = Object.freeze({ Flavor: 'Node', Version: '0.1.0' })

export function createGsdk({ config, logs, logger, timing, client, handleSigterm, health }: GsdkParts): Gsdk {
  let state: SdkState = 'Initializing'
  let session: SessionConfig | undefined
  let players: readonly string[] = []
  let introduced = false
  let stopped = false
  let lastPuzzle = ''
  const callbacks: (() => void | Promise<void>)[] = []
  const ready = deferred<SessionConfig>()
  const hold = processHold()
  const askHealth = guardedHealth(health, logger)
  const pulse = startHeartbeatLoop({ beat, agent: client.name, timing, logger })

  async function beat(): Promise<number> {
    const told = state
    const text = await client.heartbeat({
      CurrentGameState: told,
      CurrentGameHealth: askHealth(),
      CurrentPlayers: players.map((id) => ({ PlayerId: id })),
    })
    if (stopped) return 0
    const answer = readAnswer(text)
    obey(answer, told)
    if (!introduced) await introduce()
    return intervalOf(answer.nextHeartbeatIntervalMs, timing)
  }

  /** After the first answer, so that an agent which is away at the start is told all the same. */
  async function introduce(): Promise<void> {
    introduced = true
    try {
      await client.introduce(introduction)
    } catch (err) {
      logger.debug({ err }, 'the agent does not take the name of this SDK, which changes nothing')
    }
  }

  /** `told` is the state that was answered, which may have changed meanwhile. */
  function obey({ operation, session: allocated }: Answer, told: SdkState): void {
    switch (operation) {
      case 'Continue':
        return
      case 'Active':
        if (told === 'Initializing') puzzle('the agent answered Active to a server that is not ready for players')
        else if (allocated === undefined) puzzle('the agent answered Active without a session')
        else if (state === 'StandingBy') activate(allocated)
        return
      case 'Terminate':
        terminate('the fleet asks this server to end')
        return
      default:
        puzzle(`the agent answered with an operation that this SDK does not know: ${operation}`)
    }
  }

  /** Says what is not understood, once for as long as it is the same. */
  function puzzle(message: string): void {
    if (message !== lastPuzzle) logger.warn({}, `${message}; ignored`)
    lastPuzzle = message
  }

  function enter(next: SdkState): void {
    state = next
    pulse.hurry(0)
  }

  function activate(allocated: SessionConfig): void {
    session = allocated
    enter('Active')
    hold.release()
    ready.resolve(allocated)
  }

  function terminate(why: string): void {
    if (state === 'Terminating') return
    enter('Terminating')
    hold.release()
    if (callbacks.length === 0) logger.warn({}, `${why}, but no onTerminate callback is registered`)
    else logger.info({}, why)
    for (const callback of callbacks) void guarded(callback)
  }

  async function guarded(callback: () => void | Promise<void>): Promise<void> {
    try {
      await callback()
    } catch (err) {
      logger.error({ err }, 'an onTerminate callback failed')
    }
  }

  // Stays installed after the first signal: the fleet may send one while the game is saying goodbye already.
  const onSigterm = () => terminate('SIGTERM asks this server to end')

  return Object.freeze({
    config,
    logs,
    get state() {
      return state
    },
    get session() {
      return session
    },
    readyForPlayers() {
      if (state === 'Initializing' && !stopped) {
        enter('StandingBy')
        hold.take()
      }
      return ready.promise
    },
    updateConnectedPlayers(ids: readonly string[]) {
      const next = ids.map(String)
      if (next.length === players.length && next.every((id, i) => id === players[i])) return
      players = next
      pulse.hurry(timing.playersGapMs)
    },
    onTerminate(fn: () => void | Promise<void>) {
      if (stopped) return
      if (state === 'Terminating') void guarded(fn)
      // Only with a first callback: a game that registers none still ends on SIGTERM.
      else if (callbacks.push(fn) === 1 && handleSigterm) process.on('SIGTERM', onSigterm)
    },
    stop() {
      stopped = true
      pulse.stop()
      client.close()
      hold.release()
      process.off('SIGTERM', onSigterm)
    },
  })
}

/** The game's own word on its health, which may throw or, in JavaScript, be a promise by mistake. */
function guardedHealth(health: (() => boolean) | undefined, logger: Logger): () => 'Healthy' | 'Unhealthy' {
  if (health === undefined) return () => 'Healthy'
  let said = false
  const complain = (err: unknown, message: string) => {
    if (!said) logger.error({ err }, message)
    said = true
  }
  return () => {
    try {
      const verdict: unknown = health()
      if (verdict instanceof Promise) {
        verdict.catch((err: unknown) => complain(err, 'the health callback rejected'))
        complain(undefined, 'the health callback returned a promise, which counts as healthy: answer true or false')
      } else said = false
      return verdict ? 'Healthy' : 'Unhealthy'
    } catch (err) {
      complain(err, 'the health callback failed, which counts as unhealthy')
      return 'Unhealthy'
    }
  }
}

function deferred<T>(): { readonly promise: Promise<T>; readonly resolve: (value: T) => void } {
  let resolve: (value: T) => void = () => {}
  const promise = new Promise<T>((settle) => {
    resolve = settle
  })
  return { promise, resolve }
}
