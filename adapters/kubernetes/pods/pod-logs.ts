/** Streams the log of a game's container line by line, and resumes after the connection breaks. */
import type { LogsOptions } from '../../../src/contracts/backend.js'
import { FleetError, messageOf } from '../../../src/contracts/errors.js'
import { keyOf } from '../../../src/rules/model/resources.js'
import { type LinePiece, LineSplitter } from '../../shared/line-splitter.js'
import type { ApiStream } from '../client/api-call.js'
import { statusOf } from '../client/api-errors.js'
import type { KubernetesApi } from '../client/api.js'
import { pathOf, pods as podType } from '../client/kube-objects.js'
import type { PodSnapshot } from './pod-snapshot.js'

export interface LogSource {
  readonly api: KubernetesApi
  readonly snapshot: PodSnapshot
  /** Whether the log may still grow. */
  isRunning(): boolean
}

const initialPauseMs = 100
const maxPauseMs = 5_000

/** Ends without an error when the signal fires or, with `follow`, when the pod is deleted. */
export async function* podLogs(source: LogSource, options: LogsOptions): AsyncGenerator<string> {
  const { follow = false, tail, signal } = options
  const { api } = source
  /** Timestamp of the last line, with nanosecond precision. */
  let since: string | undefined
  /** Number of lines with that timestamp yielded so far. */
  let yieldedAtSince = 0
  let hasBegun = false
  let pauseMs = initialPauseMs
  while (!signal?.aborted) {
    // A resumed log starts with lines that have already been yielded; they are skipped.
    let isRepeating = since !== undefined
    let repeatsAtSince = yieldedAtSince
    /** Timestamp of the current line, at its start. */
    let at = ''
    try {
      for await (const piece of readPieces(source, { follow, tail: hasBegun ? undefined : tail, since }, signal)) {
        hasBegun = true
        const { startsLine, endsLine } = piece
        const space = startsLine ? piece.text.indexOf(' ') : -1
        if (startsLine) {
          at = piece.text.slice(0, space)
          isRepeating &&= since !== undefined && (at < since || (at === since && repeatsAtSince-- > 0))
        }
        if (isRepeating) continue
        // A very long line that a broken connection cuts off is repeated from its start.
        if (endsLine) {
          yieldedAtSince = at === since ? yieldedAtSince + 1 : 1
          since = at
        }
        pauseMs = initialPauseMs
        yield piece.text.slice(space + 1)
      }
      hasBegun = true
      if (!follow || signal?.aborted || !source.isRunning()) return
    } catch (error) {
      if (signal?.aborted) return
      if (hasBegun && FleetError.is(error, 'not-found')) return
      if (!follow || !hasBegun || !FleetError.is(error, 'unavailable')) throw error
    }
    await api.pause(pauseMs, signal)
    if (api.closed) return
    pauseMs = Math.min(2 * pauseMs, maxPauseMs)
  }
}

interface LogQuery {
  readonly follow: boolean
  readonly tail: number | undefined
  readonly since: string | undefined
}

async function* readPieces(
  source: LogSource,
  query: LogQuery,
  signal: AbortSignal | undefined,
): AsyncGenerator<LinePiece> {
  const { body, stop } = await openLog(source, query, signal)
  signal?.addEventListener('abort', stop, { once: true })
  if (signal?.aborted) stop()
  const splitter = new LineSplitter()
  try {
    const chunks: AsyncIterable<Buffer> = body
    for await (const chunk of chunks) yield* splitter.push(chunk)
    for (const piece of splitter.rest()) yield { ...piece, endsLine: true }
  } catch (error) {
    throw new FleetError('unavailable', `log stream interrupted: ${messageOf(error)}`, { cause: error })
  } finally {
    signal?.removeEventListener('abort', stop)
    stop()
  }
}

async function openLog(
  { api, snapshot }: LogSource,
  { follow, tail, since }: LogQuery,
  signal: AbortSignal | undefined,
): Promise<ApiStream> {
  const { ref, container } = snapshot.identity
  try {
    return await api.open({
      what: `read the log of pod ${ref.name}`,
      method: 'GET',
      path: pathOf(podType, { ...ref, subresource: 'log' }),
      query: { container, follow, timestamps: true, tailLines: tail, sinceTime: since },
      signal,
    })
  } catch (error) {
    const status = statusOf(error)
    if (status === 404) throw new FleetError('not-found', `pod ${keyOf(ref)} and its log are gone`, { cause: error })
    // The container has not started yet.
    if (status === 400) throw new FleetError('not-found', `${keyOf(ref)} has no log yet`, { cause: error })
    throw error
  }
}
