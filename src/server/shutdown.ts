/**
 * Handles shutdown. SIGTERM exits and leaves the game servers running, so that a redeployment does not end matches. Ctrl-C in a terminal
 * drains the fleet first; a second Ctrl-C interrupts the drain. Process managers such as pm2 send SIGINT without a terminal, and mean
 * SIGTERM. Listens for signals, but never ends the process itself.
 */
import type { Fleet } from '../contracts/fleet.js'
import { FleetError } from '../index.js'
import type { ServerLog } from './log.js'
import { isInForeground } from '../platform/process-identity.js'
import { counted } from '../rules/validation/problem.js'

/** Exit code after an interrupted drain. */
const interruptedCode = 130
/**
 * Under `npm start`, one Ctrl-C arrives twice: from the terminal, and forwarded by npm. A SIGINT this soon after another is
 * ignored.
 */
const duplicateSignalMs = 500

interface ShutdownOptions {
  readonly fleet: Fleet
  readonly log: ServerLog
  /** Called on the first signal. Stops work outside the fleet. */
  readonly onSignal: () => Promise<void>
  /** Closes the listeners and the fleet. */
  readonly close: () => Promise<void>
}

/** Starts to listen for signals. Resolves with the exit code after a signal has arrived and the shutdown is complete. */
export async function untilShutdown({ fleet, log, onSignal, close }: ShutdownOptions): Promise<number> {
  const signals = listen()
  const first = await signals.next()
  await onSignal()
  if (first !== 'SIGINT' || !isInForeground()) return shutDown(first, 0)

  const second = new AbortController()
  const interruption = signals.next().then((signal) => {
    second.abort()
    return signal
  })
  if (await drain(fleet, log, second.signal)) return shutDown(undefined, 0)
  const signal = await interruption
  return shutDown(signal, signal === 'SIGINT' ? interruptedCode : 0)

  async function shutDown(signal: string | undefined, code: number): Promise<number> {
    const running = await countServers(fleet)
    await close()
    const why = signal === undefined ? 'drained' : `exiting on ${signal}`
    log.info(running === undefined ? {} : { running }, `${why}; ${remaining(running)}`)
    return code
  }
}

/** Returns undefined if another host leads the fleet. */
export async function countServers(fleet: Fleet): Promise<number | undefined> {
  try {
    return (await fleet.servers.list()).length
  } catch (error) {
    if (FleetError.is(error, 'not-leader')) return undefined
    throw error
  }
}

function remaining(count: number | undefined): string {
  if (count === undefined) return 'another host leads the fleet'
  return count === 0 ? 'no game server is running' : `${counted(count, 'game server')} left running for the next start`
}

/** Returns signals in the order in which they arrive. */
function listen(): { next(): Promise<NodeJS.Signals> } {
  const queue: NodeJS.Signals[] = []
  let waiter: ((signal: NodeJS.Signals) => void) | undefined
  let interruptedAt = -Infinity
  const take = (signal: NodeJS.Signals) => {
    if (signal === 'SIGINT') {
      const now = performance.now()
      if (now - interruptedAt < duplicateSignalMs) return
      interruptedAt = now
    }
    if (!waiter) queue.push(signal)
    else waiter(signal)
    waiter = undefined
  }
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.on(signal, take)
  return {
    next() {
      const signal = queue.shift()
      if (signal !== undefined) return Promise.resolve(signal)
      return new Promise((resolve) => {
        waiter = resolve
      })
    },
  }
}

/** Resolves with true if all game servers have been terminated, or with false if the drain was interrupted. */
async function drain(fleet: Fleet, log: ServerLog, interrupted: AbortSignal): Promise<boolean> {
  let reported: number | undefined
  const unlisten = fleet.on('DrainProgress', ({ active }) => {
    if (active === reported) return
    reported = active
    const matches = active === 0 ? 'no match is running' : `${counted(active, 'match', 'matches')} still running`
    log.info({ matches: active }, `draining: ${matches}; press Ctrl-C again to exit at once`)
  })
  log.info({}, 'draining: no new allocations, terminating idle game servers, waiting for matches to end')
  try {
    await fleet.drain({ signal: interrupted, caller: { name: 'SIGINT' } })
    return true
  } catch (error) {
    if (!FleetError.is(error, 'aborted')) throw error
    return false
  } finally {
    unlisten()
  }
}
