/** The log and the standard input of a game's container, and commands in it. */
import { Socket } from 'node:net'
import type { ExecOptions, ExecResult, LogsOptions } from '../../../src/contracts/backend.js'
import type { CallOptions } from '../../../src/contracts/call-options.js'
import type { Clock } from '../../../src/contracts/clock.js'
import { FleetError, messageOf, throwIfAborted } from '../../../src/contracts/errors.js'
import { keyOf } from '../../../src/rules/model/resources.js'
import { isObject } from '../../../src/rules/validation/problem.js'
import { objectAt, objectsAt } from '../../../src/rules/validation/pod-template.js'
import { unlessAborted } from '../../../src/util/signals.js'
import { withTimeout } from '../../../src/util/with-timeout.js'
import { CommandOutput, saysUnrunnable, commandKeepAliveMs } from '../../shared/command-output.js'
import { type LinePiece, LineSplitter } from '../../shared/line-splitter.js'
import { noStdin } from '../../shared/backend-lifecycle.js'
import { statusOf } from '../client/api-errors.js'
import type { ApiCall, ApiStream, KubernetesApi } from '../client/api.js'
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
  const stream = await openSocket(target, what, 'attach', { stdin: true }, signal)
  const sent = withTimeout(clock, timeoutMs, what, (timeout) => {
    timeout.addEventListener('abort', stream.stop)
    return sendStdin(stream, line, what, clock)
  })
  await unlessAborted(sent, signal).finally(stream.stop)
}

/**
 * Runs a command in a game's container. The cluster cannot end it, so it is followed until it ends by itself. Rejects as `Backend.exec` does.
 * The signal only keeps it from being started.
 */
export async function execInPod(
  target: StdinTarget,
  command: readonly string[],
  { input, onStarted, signal }: ExecOptions,
): Promise<ExecResult> {
  throwIfAborted(signal)
  const { clock, snapshot } = target
  const { ref } = snapshot.identity
  const what = `run ${command[0] ?? ''} in pod ${ref.name}`
  const stdin = input !== undefined
  const stream = await openSocket(target, what, 'exec', { command, stdin, stdout: true, stderr: true })
  try {
    const { socket } = stream
    if (!socket) throw new Error('the answer is no WebSocket')
    onStarted?.()
    // A command may take long and print nothing, and the API server may be gone without a word.
    if (socket instanceof Socket) socket.setKeepAlive(true, commandKeepAliveMs)
    if (input !== undefined) for (const part of stdinFrames(input, clock)) socket.write(part)
    const output = new CommandOutput()
    for await (const { channel, payload } of messagesOf(socket)) {
      const excess = channel === errorStream ? undefined : output.push(payload)
      if (excess) throw excess
      const ended = channel === errorStream ? endIn(payload) : undefined
      if (typeof ended === 'number') return { exitCode: ended, output: output.text }
      if (ended !== undefined && saysUnrunnable(ended)) return { exitCode: 127, output: ended }
      if (ended !== undefined) throw new Error(ended)
    }
    throw new Error('the connection was lost')
  } catch (error) {
    if (FleetError.is(error)) throw error
    throw new FleetError('unavailable', `failed to ${what}: ${messageOf(error)}`, { cause: error })
  } finally {
    stream.stop()
  }
}

/**
 * The subresources `attach` and `exec` of pods: a WebSocket whose messages begin with the number of a stream.
 */
const stdinStream = 0
const errorStream = 3
const [binary, closing] = [2, 8]

async function openSocket(
  { api, clock, snapshot }: StdinTarget,
  what: string,
  subresource: 'attach' | 'exec',
  query: ApiCall['query'],
  signal?: AbortSignal,
): Promise<ApiStream> {
  const { ref, container } = snapshot.identity
  return api.open({
    what,
    method: 'GET',
    path: pathOf(podType, { ...ref, subresource }),
    signal,
    query: { container, ...query },
    headers: {
      // The API server has this route for no other type.
      accept: '*/*',
      connection: 'Upgrade',
      upgrade: 'websocket',
      'sec-websocket-version': '13',
      'sec-websocket-key': Buffer.from(clock.randomBytes(16)).toString('base64'),
      'sec-websocket-protocol': 'v4.channel.k8s.io',
    },
  })
}

/**
 * Sends a text, and closes the WebSocket, which the container does not notice. Resolves once the other side has closed the connection, which it
 * does when it has passed on the text. Rejects with `unavailable`.
 */
async function sendStdin({ socket }: ApiStream, text: string, what: string, clock: Clock): Promise<void> {
  try {
    if (!socket) throw new Error('the answer is no WebSocket')
    for (const part of stdinFrames(text, clock)) socket.write(part)
    socket.write(frame(closing, Buffer.alloc(0), clock.randomBytes(4)))
    for await (const { channel, payload } of messagesOf(socket)) {
      const ended = channel === errorStream ? endIn(payload) : undefined
      if (typeof ended === 'string') throw new Error(ended)
    }
  } catch (error) {
    throw new FleetError('unavailable', `failed to ${what}: ${messageOf(error)}`, { cause: error })
  }
}

/** More than the line of a game, and what is sent in one piece without a length of 64 bits. */
const maxFrameBytes = 32_768

function stdinFrames(text: string, clock: Clock): readonly Buffer[] {
  const bytes = Buffer.from(text)
  return Array.from({ length: Math.ceil(bytes.length / maxFrameBytes) }, (_, i) => {
    const part = bytes.subarray(i * maxFrameBytes, (i + 1) * maxFrameBytes)
    return frame(binary, Buffer.concat([Buffer.from([stdinStream]), part]), clock.randomBytes(4))
  })
}

/** A frame from a client is masked. Its payload is shorter than 64 KiB. */
function frame(opcode: number, payload: Buffer, mask: Uint8Array): Buffer {
  const { length } = payload
  const size = length < 126 ? [length] : [126, length >> 8, length & 0xff]
  const masked = payload.map((byte, i) => byte ^ (mask[i % 4] ?? 0))
  return Buffer.concat([Buffer.from([0x80 | opcode, 0x80 | (size[0] ?? 0), ...size.slice(1)]), mask, masked])
}

interface Message {
  /** The number of the stream. */
  readonly channel: number
  readonly payload: Buffer
}

/** Far more than a node sends at once. */
const maxMessageBytes = 1_024 * 1_024

/** Ends once the other side closes the WebSocket. Throws if it is lost. A frame from a server is not masked. */
async function* messagesOf(socket: AsyncIterable<Buffer>): AsyncGenerator<Message> {
  let frames: Buffer = Buffer.alloc(0)
  for await (const chunk of socket) {
    frames = Buffer.concat([frames, chunk])
    for (let found; (found = frameAt(frames)); frames = frames.subarray(found.end)) {
      const { opcode, begin, end } = found
      if (end - begin > maxMessageBytes) throw new Error('a message is too long')
      if (frames.length < end) break
      if (opcode === closing) return
      const [channel] = frames.subarray(begin, end)
      if (opcode === binary && channel !== undefined) yield { channel, payload: frames.subarray(begin + 1, end) }
    }
  }
  throw new Error('the connection was lost')
}

/** Where the payload of the first frame is. Undefined until that is known. */
function frameAt(
  frames: Buffer,
): { readonly opcode: number; readonly begin: number; readonly end: number } | undefined {
  const [first = 0, second = 0] = frames
  const short = second & 0x7f
  const begin = short === 126 ? 4 : short === 127 ? 10 : 2
  if (frames.length < begin) return undefined
  const length = short === 126 ? frames.readUInt16BE(2) : short === 127 ? Number(frames.readBigUInt64BE(2)) : short
  return { opcode: first & 0x0f, begin, end: begin + length }
}

/** The exit code in a message of the error stream, or why there is none. Undefined for a message that says nothing. */
function endIn(payload: Buffer): number | string | undefined {
  if (payload.length === 0) return undefined
  const status: unknown = JSON.parse(payload.toString())
  if (!isObject(status)) return undefined
  if (status['status'] !== 'Failure') return 0
  const code = objectsAt(objectAt(status, 'details'), 'causes').find(({ reason }) => reason === 'ExitCode')
  return status['reason'] === 'NonZeroExitCode' && code ? Number(code['message']) : String(status['message'])
}
