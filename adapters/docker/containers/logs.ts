/** Reads and follows a container's log, even across engine restarts that the container survives. */
import type { LogsOptions } from '../../../src/contracts/backend.js'
import { FleetError } from '../../../src/contracts/errors.js'
import { isObject } from '../../../src/rules/validation/problem.js'
import { type EngineApi, messageFromEngine, type OpenStream, statusOf } from '../engine-api.js'
import { timeOf } from './instance.js'
import { type LinePiece, LineSplitter } from '../../shared/line-splitter.js'
import { framesOf } from '../docker-client.js'

interface LogSource {
  readonly api: EngineApi
  readonly id: string
  readonly tty: boolean
  /** Whether the log may still grow. */
  isRunning(): Promise<boolean>
}

const backoffInitialMs = 100
const backoffMaxMs = 5_000
const stderrFrame = 2

/** Ends without an error when the signal fires or, when following, once the container is removed. */
export async function* containerLogs(source: LogSource, options: LogsOptions): AsyncGenerator<string> {
  const { follow = false, tail = 'all', origin = false, signal } = options
  const { api } = source
  /** Timestamp of the last line. */
  let since: string | undefined
  // With `tail: 0` the log starts at this moment, even if the connection breaks before the first line.
  const startTime = follow && tail === 0 ? engineTime(api, signal) : undefined
  let hasFollowed = false
  let backoffMs = backoffInitialMs
  while (!signal?.aborted) {
    try {
      const open = await openLog(source, { follow, tail: since === undefined ? tail : 'all', since }, signal)
      hasFollowed = follow
      for await (const { at, from, text, endsLine } of readLog(open, source.tty, signal)) {
        // After a reconnect, the log repeats the last line; skip it.
        if (at !== undefined && since !== undefined && at <= since) continue
        // A very long line that a broken connection cuts off is repeated from its start.
        if (endsLine) since = at ?? since
        backoffMs = backoffInitialMs
        yield origin ? `${at ?? '-'} ${from === stderrFrame ? 'stderr' : 'stdout'} ${text}` : text
      }
      if (!follow || signal?.aborted || !(await source.isRunning())) return
    } catch (error) {
      if (signal?.aborted) return
      if (hasFollowed && FleetError.is(error, 'not-found')) return
      // The engine may come back with the container still running.
      if (!hasFollowed || !FleetError.is(error, 'unavailable')) throw error
    }
    since ??= await startTime
    await api.sleep(backoffMs, { signal })
    backoffMs = Math.min(2 * backoffMs, backoffMaxMs)
  }
}

/**
 * The engine's current time, in the format of log timestamps. Undefined if unknown; lines lost to a broken connection then
 * cannot be read again.
 */
async function engineTime(api: EngineApi, signal: AbortSignal | undefined): Promise<string | undefined> {
  const info = await api.info({ signal }).catch(() => undefined)
  const ms = timeOf(isObject(info) ? info['SystemTime'] : undefined)
  return Number.isNaN(ms) ? undefined : new Date(ms).toISOString().replace('Z', '000000Z')
}

interface Line extends Pick<LinePiece, 'text' | 'endsLine'> {
  /**
   * The engine's timestamp with nanosecond precision, in practice unique within a container. Undefined for an unterminated
   * last line, which may be older than later lines of the other stream.
   */
  readonly at: string | undefined
  /** The number that the engine gives the stream. Undefined for a terminal, which has one. */
  readonly from: number | undefined
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
    if (/does not support reading/.test(messageFromEngine(error))) {
      const message = `the container's log driver keeps no log that can be read: ${messageFromEngine(error)}`
      throw new FleetError('unsupported', message, { cause: error })
    }
    if (statusOf(error) === 404) throw new FleetError('not-found', 'the container no longer exists', { cause: error })
    throw error
  }
}

async function* readLog(open: OpenStream, tty: boolean, signal: AbortSignal | undefined): AsyncGenerator<Line> {
  signal?.addEventListener('abort', open.stop, { once: true })
  if (signal?.aborted) open.stop()
  try {
    if (tty) {
      yield* terminalLines(open.stream)
      return
    }
    const splitters = new Map<number, LineSplitter>()
    // A long line arrives in several frames, each with its own timestamp; only the last frame ends with a newline.
    for await (const { from, payload } of framesOf(open.stream)) {
      const space = payload.indexOf(' ')
      const at = payload.toString('latin1', 0, space)
      const splitter = splitters.get(from) ?? new LineSplitter()
      splitters.set(from, splitter)
      for (const { text, endsLine } of splitter.push(payload.subarray(space + 1))) yield { at, from, text, endsLine }
    }
    for (const [from, splitter] of splitters) {
      for (const { text } of splitter.rest()) yield { at: undefined, from, text, endsLine: true }
    }
  } catch (error) {
    throw new FleetError('unavailable', `the log stream failed: ${messageFromEngine(error)}`, { cause: error })
  } finally {
    signal?.removeEventListener('abort', open.stop)
    open.stop()
  }
}

/** The output of a terminal has no frames, and each line begins with its timestamp. */
async function* terminalLines(stream: AsyncIterable<Buffer>): AsyncGenerator<Line> {
  const splitter = new LineSplitter()
  let at = ''
  const read = ({ text, startsLine, endsLine }: LinePiece): Line => {
    const space = startsLine ? text.indexOf(' ') : -1
    if (startsLine) at = text.slice(0, space)
    return { at, from: undefined, text: text.slice(space + 1), endsLine }
  }
  for await (const chunk of stream) yield* splitter.push(chunk).map(read)
  for (const piece of splitter.rest()) yield read(piece)
}

/**
 * Converts a timestamp like `2026-01-02T03:04:05.123456789Z` to the format of the engine's `since` parameter: seconds with
 * nine decimals.
 */
function secondsOf(at: string): string {
  const [, whole = '', fraction = ''] = /^(.*?)(?:\.(\d+))?Z$/.exec(at) ?? []
  return `${Math.floor(new Date(`${whole}Z`).getTime() / 1000)}.${fraction.padEnd(9, '0')}`
}
