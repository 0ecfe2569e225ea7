/**
 * Reads a single watch connection: parses its JSON lines as events until the server ends the watch, it stalls, or it breaks.
 */
import type { Clock } from '../../../src/contracts/clock.js'
import { isObject } from '../../../src/rules/validation/problem.js'
import type { ApiStream } from './api-call.js'
import { apiErrorFrom, failedCall } from './api-errors.js'
import { isKubeObject, type KubeObject, revisionOf } from './kube-objects.js'

export type WatchEvent =
  | { readonly type: 'changed' | 'deleted' | 'other'; readonly object: KubeObject; readonly revision: string }
  /** Reports a newer revision without a change. */
  | { readonly type: 'bookmark'; readonly revision: string | undefined }

export interface WatchStreamInput {
  readonly stream: ApiStream
  readonly clock: Clock
  /** Closes the stream if no data arrives for this long. */
  readonly stallMs: number
  /** The kind of objects watched, as named in messages: `pods`. */
  readonly what: string
  /** Origin of the API server, used in messages. */
  readonly server: string
  readonly onEvent: (event: WatchEvent) => void
}

/**
 * Resolves when the server ends the watch or the watch stalls. Rejects when the watch breaks or the server reports an error.
 */
export async function readWatchStream(input: WatchStreamInput): Promise<'ended' | 'stalled'> {
  const { clock, stallMs, onEvent } = input
  const { body, stop } = input.stream
  let isStalled = false
  const onStall = () => {
    isStalled = true
    stop()
  }
  let cancel = clock.after(stallMs, onStall)
  body.setEncoding('utf8')
  let rest = ''
  try {
    for await (const chunk of body) {
      cancel()
      cancel = clock.after(stallMs, onStall)
      const lines = (rest + String(chunk)).split('\n')
      rest = lines.pop() ?? ''
      for (const line of lines) if (line !== '') onEvent(parseEvent(line, input))
    }
    return 'ended'
  } catch (error) {
    // The connection is either dead or merely quiet: the API server may have had nothing to send.
    if (isStalled) return 'stalled'
    throw error
  } finally {
    cancel()
  }
}

const types: Readonly<Record<string, 'changed' | 'deleted'>> = {
  ADDED: 'changed',
  MODIFIED: 'changed',
  DELETED: 'deleted',
}

function parseEvent(line: string, { what, server }: WatchStreamInput): WatchEvent {
  const event: unknown = JSON.parse(line)
  if (!isObject(event)) throw new Error(`unexpected watch event of ${what}: not an object`)
  const { type, object } = event
  if (type === 'ERROR') throw failedCall(apiErrorFrom(isObject(object) ? object : {}, 500), `watch ${what}`, server)
  if (isKubeObject(object)) return { type: types[String(type)] ?? 'other', object, revision: revisionOf(object) }
  if (type !== 'BOOKMARK') throw new Error(`unexpected watch event of ${what}: ${String(type)} without an object`)
  const metadata = isObject(object) && isObject(object['metadata']) ? object['metadata'] : {}
  const { resourceVersion } = metadata
  return { type: 'bookmark', revision: typeof resourceVersion === 'string' ? resourceVersion : undefined }
}
