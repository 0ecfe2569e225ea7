/** Reads an answer that arrives hours after its request, such as that of a drain, and a server's log. */
import type { LogsOptions } from '../contracts/backend.js'
import { FleetError } from '../contracts/errors.js'
import type { Call, Connection } from './connection.js'
import { chunks, messages } from './server-sent-events.js'

/** A host sends data at least every 15 s. After three times that, the connection counts as lost. */
const silenceMs = 45_000

/** Resolves with the answer, which begins with a line break every 15 s. */
export async function readSlowly<T>(calls: Connection, call: Call): Promise<T> {
  const response = await calls.open(call)
  let answer = ''
  try {
    for await (const text of chunks(response, silenceMs)) answer += text
    const value: T = JSON.parse(answer)
    return value
  } catch (error) {
    if (call.signal?.aborted) throw new FleetError('aborted', 'the call was aborted by its signal', { cause: error })
    throw new FleetError('unavailable', `${call.url}: the connection was lost; the drain continues`, { cause: error })
  }
}

/** The host sends lines as JSON strings in server-sent events. Ends without an error if the signal fires. */
export async function* readLogs(
  calls: Connection,
  url: string,
  { follow = false, tail, signal }: LogsOptions,
): AsyncGenerator<string> {
  const query = [follow && 'follow=true', tail !== undefined && `tail=${tail}`].filter((part) => part !== false)
  const stop = new AbortController()
  const onAbort = () => stop.abort(signal?.reason)
  if (signal?.aborted) return
  signal?.addEventListener('abort', onAbort)
  try {
    const response = await calls.open({
      url: query.length === 0 ? url : `${url}?${query.join('&')}`,
      headers: { Accept: 'text/event-stream' },
      signal: stop.signal,
    })
    for await (const { data } of messages(response, silenceMs)) {
      const line: string = JSON.parse(data)
      yield line
    }
  } catch (error) {
    if (!signal?.aborted) throw error
  } finally {
    signal?.removeEventListener('abort', onAbort)
    stop.abort()
  }
}
