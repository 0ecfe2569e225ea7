/** The lines that a container writes, as they come: also past a restart of the engine that the container survives. */
import type { LogsOptions } from '../../src/contracts/backend.js'
import { FleetError } from '../../src/contracts/errors.js'
import { isObject } from '../../src/rules/validation/problem.js'
import type { EngineApi, OpenStream } from './engine-api.js'
import { statusOf, wordsOf } from './engine-errors.js'
import { timeOf } from './instance.js'
import { framesOf } from './lines.js'

export interface LogSource {
  readonly api: EngineApi
  readonly id: string
  /** Whether there is more to come. */
  isRunning(): Promise<boolean>
}

const firstPauseMs = 100
const longestPauseMs = 5_000

/** Ends quietly when the signal fires, and, followed, when the container is gone. */
export async function* containerLogs(source: LogSource, options: LogsOptions): AsyncGenerator<string> {
  const { follow = false, tail = 'all', signal } = options
  const { api } = source
  /** What came last, and what has come at that very moment. */
  let since: string | undefined
  // Whoever wants nothing of the past gets all from now on, also when no line has come before a connection breaks.
  const begun = follow && tail === 0 ? engineTime(api, signal) : undefined
  let hasFollowed = false
  let pauseMs = firstPauseMs
  while (!signal?.aborted) {
    try {
      const open = await openLog(source, { follow, tail: since === undefined ? tail : 'all', since }, signal)
      hasFollowed = follow
      for await (const { at, text } of readLog(open, signal)) {
        // What is asked for again begins with what came last.
        if (at !== undefined && since !== undefined && at <= since) continue
        since = at ?? since
        pauseMs = firstPauseMs
        yield text
      }
      if (!follow || signal?.aborted || !(await source.isRunning())) return
    } catch (error) {
      if (signal?.aborted) return
      if (hasFollowed && FleetError.is(error, 'not-found')) return
      // The engine may be back in a moment, with its container.
      if (!hasFollowed || !FleetError.is(error, 'unavailable')) throw error
    }
    since ??= await begun
    await api.pause(pauseMs, { signal })
    pauseMs = Math.min(2 * pauseMs, longestPauseMs)
  }
}

/** As its logs have it. Undefined when it does not say: then what is lost with a connection is not read again. */
async function engineTime(api: EngineApi, signal: AbortSignal | undefined): Promise<string | undefined> {
  const info = await api.info({ signal }).catch(() => undefined)
  const ms = timeOf(isObject(info) ? info['SystemTime'] : undefined)
  return Number.isNaN(ms) ? undefined : new Date(ms).toISOString().replace('Z', '000000Z')
}

interface Line {
  /**
   * In the engine's time, to the nanosecond: no two lines of one container have the same in practice. Undefined for a last one
   * without an end, which may be older than what another stream has written after it.
   */
  readonly at: string | undefined
  readonly text: string
}

interface LogQuery {
  readonly follow: boolean
  readonly tail: number | 'all'
  readonly since: string | undefined
}

async function openLog(
  { api, id }: LogSource,
  { follow, tail, since }: LogQuery,
  signal: AbortSignal | undefined,
): Promise<OpenStream> {
  const query = { follow, tail, ...(since !== undefined && { since: secondsOf(since) }) }
  try {
    return await api.logs(id, query, { signal })
  } catch (error) {
    if (/does not support reading/.test(wordsOf(error))) {
      const message = `the log of a container whose log driver keeps none cannot be shown: ${wordsOf(error)}`
      throw new FleetError('unsupported', message, { cause: error })
    }
    if (statusOf(error) === 404)
      throw new FleetError('not-found', 'there is no such container any more', { cause: error })
    throw error
  }
}

async function* readLog(open: OpenStream, signal: AbortSignal | undefined): AsyncGenerator<Line> {
  signal?.addEventListener('abort', open.stop, { once: true })
  if (signal?.aborted) open.stop()
  try {
    // A long line comes in several frames, each behind its own time; only the last of them ends in a newline.
    const begun = new Map<number, Buffer[]>()
    for await (const { from, payload } of framesOf(open.stream)) {
      const space = payload.indexOf(' ')
      const parts = [...(begun.get(from) ?? []), payload.subarray(space + 1)]
      const isWhole = payload.at(-1) === newline
      begun.set(from, isWhole ? [] : parts)
      if (isWhole) yield { at: payload.toString('latin1', 0, space), text: textOf(parts) }
    }
    for (const parts of begun.values()) if (parts.length > 0) yield { at: undefined, text: textOf(parts) }
  } catch (error) {
    throw new FleetError('unavailable', `the log broke off: ${wordsOf(error)}`, { cause: error })
  } finally {
    signal?.removeEventListener('abort', open.stop)
    open.stop()
  }
}

const newline = 10

function textOf(parts: readonly Buffer[]): string {
  return Buffer.concat(parts)
    .toString('utf8')
    .replace(/\r?\n$/, '')
}

/** `2026-01-02T03:04:05.123456789Z` as the engine takes it back: seconds with nine digits behind the point. */
function secondsOf(at: string): string {
  const [, whole = '', fraction = ''] = /^(.*?)(?:\.(\d+))?Z$/.exec(at) ?? []
  return `${Math.floor(new Date(`${whole}Z`).getTime() / 1000)}.${fraction.padEnd(9, '0')}`
}
