/** The lines that a game's container writes, as they come: also past a connection that breaks. */
import type { LogsOptions } from '../../../src/contracts/backend.js'
import { FleetError, messageOf } from '../../../src/contracts/errors.js'
import { keyOf } from '../../../src/rules/model/resources.js'
import { statusOf } from '../client/api-errors.js'
import type { KubernetesApi } from '../client/api.js'
import { pathOf, pods as podType } from '../client/kube-objects.js'
import type { PodSnapshot } from './pod-snapshot.js'

export interface LogSource {
  readonly api: KubernetesApi
  readonly seen: PodSnapshot
  /** Whether there is more to come. */
  isRunning(): boolean
}

const firstPauseMs = 100
const longestPauseMs = 5_000

/** Ends quietly when the signal fires, and, followed, when the pod is gone. */
export async function* podLogs(source: LogSource, options: LogsOptions): AsyncGenerator<string> {
  const { follow = false, tail, signal } = options
  const { api } = source
  /** Of the last line, to the nanosecond. */
  let since: string | undefined
  /** So many of that very moment. */
  let shown = 0
  let hasBegun = false
  let pauseMs = firstPauseMs
  while (!signal?.aborted) {
    // What is asked for again begins with what was shown already.
    let isBehind = since !== undefined
    let left = shown
    try {
      for await (const line of read(source, { follow, tail: hasBegun ? undefined : tail, since }, signal)) {
        hasBegun = true
        const space = line.indexOf(' ')
        const at = line.slice(0, space)
        if (isBehind && since !== undefined && (at < since || (at === since && left-- > 0))) continue
        isBehind = false
        shown = at === since ? shown + 1 : 1
        since = at
        pauseMs = firstPauseMs
        yield line.slice(space + 1)
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
    pauseMs = Math.min(2 * pauseMs, longestPauseMs)
  }
}

interface LogQuery {
  readonly follow: boolean
  readonly tail: number | undefined
  readonly since: string | undefined
}

async function* read(
  { api, seen }: LogSource,
  { follow, tail, since }: LogQuery,
  signal: AbortSignal | undefined,
): AsyncGenerator<string> {
  const { ref, container } = seen.identity
  const { body, stop } = await open()
  signal?.addEventListener('abort', stop, { once: true })
  if (signal?.aborted) stop()
  let rest = ''
  try {
    body.setEncoding('utf8')
    for await (const chunk of body) {
      const lines = (rest + String(chunk)).split('\n')
      rest = lines.pop() ?? ''
      for (const line of lines) yield line.replace(/\r$/, '')
    }
    if (rest !== '') yield rest
  } catch (error) {
    throw new FleetError('unavailable', `the log broke off: ${messageOf(error)}`, { cause: error })
  } finally {
    signal?.removeEventListener('abort', stop)
    stop()
  }

  async function open() {
    try {
      return await api.open({
        what: `show the log of pod ${ref.name}`,
        method: 'GET',
        path: pathOf(podType, { ...ref, subresource: 'log' }),
        query: { container, follow, timestamps: true, tailLines: tail, sinceTime: since },
        signal,
      })
    } catch (error) {
      const status = statusOf(error)
      if (status === 404)
        throw new FleetError('not-found', `pod ${keyOf(ref)} is gone, and its log with it`, { cause: error })
      // Its container has not been started: there is nothing to show, and nothing wrong.
      if (status === 400) throw new FleetError('not-found', `${keyOf(ref)} has no log yet`, { cause: error })
      throw error
    }
  }
}
