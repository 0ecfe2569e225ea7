/**
 * How many files and connections this process has open, and may have. At the limit, Linux accepts a connection and closes it at once, of
 * which Node says nothing. Reads `/proc/self`; on other systems nothing is known.
 */
import { readFileSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import type { Clock } from '../contracts/clock.js'
import type { Logger } from '../contracts/logger.js'
import { codeOf } from './files.js'

/** For each game server: its connection, the one that it opens next, and the pipe of its supervisor. */
const filesPerServer = 3
/** Of the runtime, the store, listeners and callers. */
const filesOfHost = 100

const checkMs = 5_000
const warnShare = 0.9

/** For how many game servers the limit suffices. Undefined: there is no limit, or it is not known. */
export function serversForOpenFiles(limit = openFileLimit()): number | undefined {
  return limit === undefined ? undefined : Math.max(0, Math.floor((limit - filesOfHost) / filesPerServer))
}

/** Undefined: there is no limit, or it is not known. */
export function openFileLimit(): number | undefined {
  try {
    const [, soft] = /^Max open files +(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8')) ?? []
    return soft === undefined ? undefined : Number(soft)
  } catch {
    return undefined
  }
}

/** Logs when nine tenths of the limit are in use, once until it is below that again. Returns a function that stops it. */
export function watchOpenFiles(clock: Clock, logger: Logger): () => void {
  const limit = openFileLimit()
  if (limit === undefined) return () => {}
  let isWarned = false
  let cancel = () => {}
  const report = (count: number) => {
    const isNear = count >= warnShare * limit
    if (isNear && !isWarned) {
      const message = `${count} of at most ${limit} files and connections are open: at the limit, connections of games and callers are closed without an answer; raise it (ulimit -n, or LimitNOFILE of systemd)`
      logger.error({ open: count, limit }, message)
    }
    isWarned = isNear
  }
  const check = () => {
    cancel = clock.after(checkMs, check)
    openFileCount(limit).then(report, (err: unknown) => logger.debug({ err }, 'cannot count open files'))
  }
  cancel = clock.after(checkMs, check)
  return () => cancel()
}

/** Not in the event loop: with many connections it takes milliseconds. */
async function openFileCount(limit: number): Promise<number> {
  try {
    return (await readdir('/proc/self/fd')).length
  } catch (error) {
    // Even this needs a file.
    if (codeOf(error) === 'EMFILE') return limit
    throw error
  }
}
