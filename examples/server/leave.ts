/**
 * How the server leaves. Told to go (SIGTERM), it goes and leaves the game servers running, as a redeploy must. On
 * Ctrl-C it lets matches end first, and a second Ctrl-C cuts that short. Listens to signals; never ends the process.
 */
import { type Fleet, FleetError } from 'gamekeeper'
import type { ServerLog } from './log.js'

/** Of a process that was interrupted before it was done. */
const interruptedCode = 130
/** One Ctrl-C reaches a server under `npm start` twice: from the terminal, and passed on by npm. */
const sameKeyMs = 500

export interface LeaveOptions {
  readonly fleet: Fleet
  readonly log: ServerLog
  /** Ends what the server is busy with besides its fleet, as soon as the first signal has come. */
  readonly onTold: () => Promise<void>
  /** Closes the listeners and lets go of the fleet. */
  readonly close: () => Promise<void>
}

/** Listens from the moment it is called. Resolves with the exit code once a signal has come and what it asks for is done. */
export async function untilToldToLeave({ fleet, log, onTold, close }: LeaveOptions): Promise<number> {
  const told = listen()
  const first = await told.next()
  await onTold()
  if (first !== 'SIGINT') return leave(first, 0)

  const second = new AbortController()
  const cut = told.next().then((signal) => {
    second.abort()
    return signal
  })
  if (await drain(fleet, log, second.signal)) return leave(undefined, 0)
  const signal = await cut
  return leave(signal, signal === 'SIGINT' ? interruptedCode : 0)

  async function leave(signal: string | undefined, code: number): Promise<number> {
    const left = await countServers(fleet)
    await close()
    const why = signal === undefined ? 'drained' : `left on ${signal}`
    log.info(left === undefined ? {} : { running: left }, `${why}; ${whatIsLeft(left)}`)
    return code
  }
}

/** Undefined where another host leads: then they are not this one's to count. */
export async function countServers(fleet: Fleet): Promise<number | undefined> {
  try {
    return (await fleet.servers.list()).length
  } catch (error) {
    if (FleetError.is(error, 'not-leader')) return undefined
    throw error
  }
}

function whatIsLeft(count: number | undefined): string {
  if (count === undefined) return 'another host leads the fleet'
  return count === 0 ? 'no game server runs' : `${counted(count, 'game server')} left running, for the next start`
}

/** The signals in the order in which they come. */
function listen(): { next(): Promise<NodeJS.Signals> } {
  const come: NodeJS.Signals[] = []
  let wanted: ((signal: NodeJS.Signals) => void) | undefined
  let interruptedAt = -Infinity
  const take = (signal: NodeJS.Signals) => {
    if (signal === 'SIGINT') {
      const now = performance.now()
      if (now - interruptedAt < sameKeyMs) return
      interruptedAt = now
    }
    if (!wanted) come.push(signal)
    else wanted(signal)
    wanted = undefined
  }
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.on(signal, take)
  return {
    next() {
      const signal = come.shift()
      if (signal !== undefined) return Promise.resolve(signal)
      return new Promise((resolve) => {
        wanted = resolve
      })
    },
  }
}

/** True once all game servers are gone; false when the wait was cut short. */
async function drain(fleet: Fleet, log: ServerLog, cut: AbortSignal): Promise<boolean> {
  let told: number | undefined
  const unlisten = fleet.on('DrainProgress', ({ active }) => {
    if (active === told) return
    told = active
    const what = active === 0 ? 'no match is on' : `${counted(active, 'match', 'matches')} still on`
    log.info({ matches: active }, `draining: ${what}; Ctrl-C again to leave at once`)
  })
  log.info({}, 'draining: nothing is handed out any more, idle game servers end, matches go on to their end')
  try {
    await fleet.drain({ signal: cut })
    return true
  } catch (error) {
    if (!FleetError.is(error, 'aborted')) throw error
    return false
  } finally {
    unlisten()
  }
}

function counted(count: number, one: string, many = `${one}s`): string {
  return `${count} ${count === 1 ? one : many}`
}
