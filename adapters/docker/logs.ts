/** The lines that a container writes, as they come: also past a restart of the engine that the container survives. */
import type { LogsOptions } from '../../src/backend.js'
import { FleetError } from '../../src/errors.js'
import type { EngineApi } from './engine-api.js'
import { statusOf, wordsOf } from './failures.js'
import { framesOf } from './lines.js'

export interface LogSource {
  readonly api: EngineApi
  readonly id: string
  /** Whether there is more to come. */
  isRunning(): Promise<boolean>
}

/** Ends quietly when the signal fires. */
export async function* containerLogs(source: LogSource, options: LogsOptions): AsyncGenerator<string> {
  const { follow = false, tail, signal } = options
  /** What came last, and what has come at that very moment. */
  let since: string | undefined
  let tails: number | 'all' = tail ?? 'all'
  while (!signal?.aborted) {
    for await (const { at, text } of readLog(source, { follow, tail: tails, since }, signal)) {
      // What is asked for again begins with what came last.
      if (since !== undefined && at <= since) continue
      since = at
      yield text
    }
    if (!follow || signal?.aborted || !(await source.isRunning())) return
    tails = 'all'
  }
}

interface Line {
  /** In the engine's time, to the nanosecond: no two lines of one container have the same in practice. `9` is after all. */
  readonly at: string
  readonly text: string
}

async function* readLog(
  { api, id }: LogSource,
  {
    follow,
    tail,
    since,
  }: { readonly follow: boolean; readonly tail: number | 'all'; readonly since: string | undefined },
  signal: AbortSignal | undefined,
): AsyncGenerator<Line> {
  const open = await api
    .logs(id, { follow, tail, ...(since !== undefined && { since: secondsOf(since) }) }, { signal })
    .catch((error: unknown) => {
      if (/does not support reading/.test(wordsOf(error))) {
        const message = `the log of a container whose log driver keeps none cannot be shown: ${wordsOf(error)}`
        throw new FleetError('unsupported', message, { cause: error })
      }
      if (statusOf(error) === 404)
        throw new FleetError('not-found', 'there is no such container any more', { cause: error })
      if (FleetError.is(error, 'aborted')) return undefined
      throw error
    })
  if (!open) return
  signal?.addEventListener('abort', open.stop, { once: true })
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
    for (const parts of begun.values()) if (parts.length > 0) yield { at: '9', text: textOf(parts) }
  } catch (error) {
    // Followed lines break off with their engine, which may be back in a moment.
    if (!follow && !signal?.aborted)
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
