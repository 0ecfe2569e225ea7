/** Probes over TCP: whether a game accepts connections, and queries on a stream. */
import { connect, type Socket } from 'node:net'
import type { StreamQuery } from '../rules/query/query-step.js'
import { type Attempt, onEnd, ProbeFailure } from './attempts.js'
import type { HostAddress } from './host-addresses.js'

/** Resolves once the connection is there, and closes it. */
export function checkConnection({ address }: HostAddress, port: number, attempt: Attempt): Promise<void> {
  return onConnection(address, port, attempt, (socket, resolve) => {
    socket.on('connect', () => resolve(undefined))
  })
}

/** Sends the request and resolves with the result. What arrives is read only once it may be whole, so one byte at a time costs no more. */
export function runStreamQuery<T>(
  { request, read }: StreamQuery<T>,
  { address }: HostAddress,
  port: number,
  attempt: Attempt,
): Promise<T> {
  return onConnection(address, port, attempt, (socket, resolve, reject) => {
    let chunks: Uint8Array[] = []
    let received = 0
    let needed = 1
    attempt.reason = `no connection within ${attempt.timeoutMs / 1_000} s`
    socket.on('connect', () => {
      attempt.reason = undefined
      socket.write(request)
    })
    socket.on('data', (chunk: Uint8Array) => {
      chunks.push(chunk)
      received += chunk.byteLength
      if (received < needed) return
      const all = Buffer.concat(chunks)
      chunks = [all]
      const answer = read(all)
      if (answer.kind === 'done') return resolve(answer.result)
      if (answer.kind === 'wrong') return reject(new ProbeFailure(`the answer ${answer.reason}`))
      needed = answer.bytes
      attempt.reason = `the answer was not complete within ${attempt.timeoutMs / 1_000} s`
    })
    socket.on('end', () => reject(new ProbeFailure('the connection was closed before the answer was complete')))
  })
}

function onConnection<T>(
  host: string,
  port: number,
  attempt: Attempt,
  use: (socket: Socket, resolve: (result: T) => void, reject: (error: Error) => void) => void,
): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    const socket = connect({ host, port, noDelay: true })
    onEnd(attempt, () => socket.destroy())
    socket.on('error', reject)
    socket.on('close', () => reject(new ProbeFailure('the connection was closed without an answer')))
    use(socket, resolve, reject)
  })
}
