/**
 * Writes to the standard input of a container through the pod's subresource `attach`: a WebSocket whose messages begin with the number of a
 * stream. Sends one message and closes the WebSocket, which the container does not notice.
 */
import type { Clock } from '../../../src/contracts/clock.js'
import { FleetError, messageOf } from '../../../src/contracts/errors.js'
import { isObject } from '../../../src/rules/validation/problem.js'
import type { ApiStream } from './api-call.js'

const stdinStream = 0
const errorStream = 3
const [binary, close] = [2, 8]

/** The headers of the call that opens the WebSocket. */
export function handshake(clock: Clock): Readonly<Record<string, string>> {
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
export async function sendStdin({ socket }: ApiStream, text: string, what: string, clock: Clock): Promise<void> {
  const received: Buffer[] = []
  try {
    if (!socket) throw new Error('the answer is no WebSocket')
    const mask = clock.randomBytes(4)
    socket.write(frame(binary, Buffer.from([stdinStream, ...Buffer.from(text)]), mask))
    socket.write(frame(close, Buffer.alloc(0), mask))
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
    if (opcode === close) return undefined
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
