/** The log and the standard input of a game's container. */
import type { LogsOptions } from '../../../src/contracts/backend.js'
import type { CallOptions } from '../../../src/contracts/call-options.js'
import type { Clock } from '../../../src/contracts/clock.js'
import { FleetError, messageOf } from '../../../src/contracts/errors.js'
import { keyOf } from '../../../src/rules/model/resources.js'
import { isObject } from '../../../src/rules/validation/problem.js'
import { objectAt, objectsAt } from '../../../src/rules/validation/pod-template.js'
import { unlessAborted } from '../../../src/util/signals.js'
import { withTimeout } from '../../../src/util/with-timeout.js'
import { type LinePiece, LineSplitter } from '../../shared/line-splitter.js'
import { noStdin } from '../../shared/backend-lifecycle.js'
import { statusOf } from '../client/api-errors.js'
import type { ApiStream, KubernetesApi } from '../client/api.js'
import { pathOf, pods as podType } from '../client/kube-objects.js'
import type { PodSnapshot } from './pod-objects.js'

export interface LogSource {
  readonly api: KubernetesApi
  readonly snapshot: PodSnapshot
  /** Whether the log may still grow. */
  isRunning(): boolean
}

const initialPauseMs = 100
const maxPauseMs = 5_000
/** What each line begins with. The kubelet writes its own errors into the log without, for example while the container is being removed. */
const timestamp = /^\d{4}-\d\d-\d\dT/

/** Ends without an error when the signal fires or, with `follow`, when the pod is deleted. */
export async function* podLogs(source: LogSource, options: LogsOptions): AsyncGenerator<string> {
  const { follow = false, tail, origin = false, signal } = options
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
        const { startsLine, endsLine } = piece
        const space = startsLine ? piece.text.indexOf(' ') : -1
        if (startsLine) {
          at = piece.text.slice(0, Math.max(0, space))
          if (!timestamp.test(at)) throw new FleetError('unavailable', `the node cannot read the log: ${piece.text}`)
          isRepeating &&= since !== undefined && (at < since || (at === since && repeatsAtSince-- > 0))
        }
        hasBegun = true
        if (isRepeating) continue
        // A very long line that a broken connection cuts off is repeated from its start.
        if (endsLine) {
          yieldedAtSince = at === since ? yieldedAtSince + 1 : 1
          since = at
        }
        pauseMs = initialPauseMs
        const text = piece.text.slice(space + 1)
        // The API server does not say which stream a line comes from.
        yield origin ? `${at} - ${text}` : text
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

interface StdinTarget {
  readonly api: KubernetesApi
  readonly clock: Clock
  readonly timeoutMs: number
  readonly snapshot: PodSnapshot
}

/**
 * Sends a line to the standard input of a game. Rejects with `no-stdin`, or with `unavailable` if the game reads nothing: the line may then
 * still arrive.
 */
export async function writeStdin(target: StdinTarget, line: string, { signal }: CallOptions): Promise<void> {
  const { api, clock, timeoutMs, snapshot } = target
  const { ref, container } = snapshot.identity
  const what = `send a line to pod ${ref.name}`
  const pod = await api.object({ what, method: 'GET', path: pathOf(podType, ref), signal })
  const game = objectsAt(objectAt({ ...pod }, 'spec'), 'containers').find(({ name }) => name === container)
  if (game?.['stdin'] !== true) throw noStdin(ref, 'closed')
  // It would be closed after the first line.
  if (game['stdinOnce'] === true) throw noStdin(ref, 'once')
  if (snapshot.instance.phase !== 'running') throw noStdin(ref, 'ended')
  const stream = await api.open({
    what,
    method: 'GET',
    path: pathOf(podType, { ...ref, subresource: 'attach' }),
    signal,
    query: { container, stdin: true },
    headers: handshake(clock),
  })
  const sent = withTimeout(clock, timeoutMs, what, (timeout) => {
    timeout.addEventListener('abort', stream.stop)
    return sendStdin(stream, line, what, clock)
  })
  await unlessAborted(sent, signal).finally(stream.stop)
}

/**
 * The subresource `attach` of pods: a WebSocket whose messages begin with the number of a stream. One message is sent, and the WebSocket closed,
 * which the container does not notice.
 */
const stdinStream = 0
const errorStream = 3
const [binary, closing] = [2, 8]

/** The headers of the call that opens the WebSocket. */
function handshake(clock: Clock): Readonly<Record<string, string>> {
  return {
    // The API server has this route for no other type.
    accept: '*/*',
    connection: 'Upgrade',
    upgrade: 'websocket',
    'sec-websocket-version': '13',
    'sec-websocket-key': Buffer.from(clock.randomBytes(16)).toString('base64'),
    'sec-websocket-protocol': 'v4.channel.k8s.io',
  }
}

/**
 * Resolves once the other side has closed the connection, which it does when it has passed on the text. `text` is shorter than 64 KiB.
 * Rejects with `unavailable`.
 */
async function sendStdin({ socket }: ApiStream, text: string, what: string, clock: Clock): Promise<void> {
  const received: Buffer[] = []
  try {
    if (!socket) throw new Error('the answer is no WebSocket')
    const mask = clock.randomBytes(4)
    socket.write(frame(binary, Buffer.from([stdinStream, ...Buffer.from(text)]), mask))
    socket.write(frame(closing, Buffer.alloc(0), mask))
    const chunks: AsyncIterable<Buffer> = socket
    for await (const chunk of chunks) received.push(chunk)
    const failure = failureIn(Buffer.concat(received))
    if (failure !== undefined) throw new Error(failure)
  } catch (error) {
    throw new FleetError('unavailable', `failed to ${what}: ${messageOf(error)}`, { cause: error })
  }
}

/** A frame from a client is masked. */
function frame(opcode: number, payload: Buffer, mask: Uint8Array): Buffer {
  const { length } = payload
  const size = length < 126 ? [length] : [126, length >> 8, length & 0xff]
  const masked = payload.map((byte, i) => byte ^ (mask[i % 4] ?? 0))
  return Buffer.concat([Buffer.from([0x80 | opcode, 0x80 | (size[0] ?? 0), ...size.slice(1)]), mask, masked])
}

/**
 * Returns undefined if the other side has closed the WebSocket, or else why it did not pass on the text. A frame from a server is not
 * masked.
 */
function failureIn(frames: Buffer): string | undefined {
  for (let at = 0; at + 2 <= frames.length;) {
    const [opcode, short] = [(frames[at] ?? 0) & 0x0f, (frames[at + 1] ?? 0) & 0x7f]
    if (opcode === closing) return undefined
    const begin = at + (short === 126 ? 4 : 2)
    const end = begin + (short === 126 ? frames.readUInt16BE(at + 2) : short)
    if (opcode === binary && frames[begin] === errorStream && end > begin + 1) {
      const status: unknown = JSON.parse(frames.toString('utf8', begin + 1, end))
      if (isObject(status) && status['status'] === 'Failure') return String(status['message'])
    }
    at = end
  }
  return 'the connection was lost'
}
