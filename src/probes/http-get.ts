/** Asks a game over HTTP: one GET on a connection of its own. Redirects are not followed, since they could lead anywhere. */
import { Agent, type IncomingMessage, request } from 'node:http'
import { type Attempt, onEnd, ProbeFailure } from './attempts.js'
import type { HostAddress } from './host-addresses.js'

export interface HttpTarget {
  readonly at: HostAddress
  readonly port: number
  readonly path: string
  /** As the build's author knows the game: host and port. */
  readonly authority: string
}

/** One for all, which keeps no connection: with `agent: false`, each request makes one. */
const agent = new Agent({ keepAlive: false })
const maxBytes = 64 * 1_024

/** Resolves if the status is from 200 to 299. The body is not read. */
export function checkStatus(target: HttpTarget, attempt: Attempt): Promise<void> {
  return get(target, attempt, (_, resolve) => resolve(undefined))
}

/** Resolves with the body, at most 64 KiB of UTF-8, if the status is from 200 to 299. */
export function bodyText(target: HttpTarget, attempt: Attempt): Promise<string> {
  return get<string>(target, attempt, (response, resolve, reject) => {
    const decoder = new TextDecoder()
    let text = ''
    let bytes = 0
    attempt.reason = `the answer was not complete within ${attempt.timeoutMs / 1_000} s`
    response.on('data', (chunk: Uint8Array) => {
      bytes += chunk.byteLength
      if (bytes > maxBytes) return reject(new ProbeFailure(`the answer has more than ${maxBytes / 1_024} KiB`))
      text += decoder.decode(chunk, { stream: true })
    })
    response.on('end', () => resolve(text + decoder.decode()))
    response.on('error', reject)
  })
}

function get<T>(
  { at, port, path, authority }: HttpTarget,
  attempt: Attempt,
  use: (response: IncomingMessage, resolve: (result: T) => void, reject: (error: Error) => void) => void,
): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    const call = request({
      host: at.address,
      family: at.family,
      port,
      path,
      method: 'GET',
      agent,
      headers: { Host: authority, Accept: 'application/json, */*', 'User-Agent': 'gamekeeper', Connection: 'close' },
    })
    onEnd(attempt, () => call.destroy())
    call.on('error', reject)
    let isAnswered = false
    // Such as after a switch to another protocol. An answer that ends with its connection is still to be read.
    call.on('close', () => {
      if (!isAnswered) reject(new ProbeFailure('the connection was closed without an answer'))
    })
    call.on('response', (response) => {
      isAnswered = true
      response.on('close', () => reject(new ProbeFailure('the connection was closed before the answer was complete')))
      const { statusCode = 0 } = response
      if (statusCode < 200 || statusCode > 299) return reject(new ProbeFailure(`HTTP status ${statusCode}`))
      use(response, resolve, reject)
    })
    call.end()
  })
}
