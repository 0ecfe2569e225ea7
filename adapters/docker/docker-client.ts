/** The part of dockerode that this backend uses, and how dockerode is loaded if the host app passes no client. */
import type { Readable } from 'node:stream'
import { StringDecoder } from 'node:string_decoder'
import { FleetError, messageOf } from '../../src/contracts/errors.js'
import { isLoopback } from '../../src/platform/http-server.js'
import { loadOptionalPackage, unusablePackage } from '../../src/platform/packages.js'

/** A client for the Docker engine's API, such as dockerode's `new Docker()`. */
export interface DockerClient {
  readonly modem: {
    dial(options: DialOptions, callback: (error: unknown, answer: unknown) => void): void
    /** Set if the engine is reached over a network. */
    readonly host?: unknown
    readonly port?: unknown
    readonly protocol?: unknown
    readonly socketPath?: unknown
  }
}

/** The options of one call, as docker-modem defines them. */
export interface DialOptions {
  readonly path: string
  readonly method: string
  readonly options: { readonly _query: object; readonly _body: object }
  /** For each status: true if it means success, otherwise a description of the error. */
  readonly statusCodes: Readonly<Record<number, true | string>>
  readonly abortSignal: AbortSignal
  readonly isStream?: boolean
  /** Whether the answer is the connection, as a stream in both directions. */
  readonly hijack?: boolean
  readonly file?: Buffer
  readonly authconfig?: object
}

/** Connects like the `docker` command: uses DOCKER_HOST and related variables, or else this machine's socket. */
export function defaultClient(): DockerClient {
  const loaded = loadOptionalPackage('dockerode', 'dockerBackend')
  if (typeof loaded !== 'function') throw unusablePackage('dockerode', 'dockerBackend')
  let client: unknown
  try {
    client = Reflect.construct(loaded, [])
  } catch (error) {
    const message = `DOCKER_HOST or a related variable is not a valid Docker engine address: ${messageOf(error)}`
    throw new FleetError('invalid', message, { cause: error })
  }
  if (isClient(client)) return client
  throw unusablePackage('dockerode', 'dockerBackend')
}

export function isClient(value: unknown): value is DockerClient {
  if (typeof value !== 'object' || value === null || !('modem' in value)) return false
  const { modem } = value
  return typeof modem === 'object' && modem !== null && 'dial' in modem && typeof modem.dial === 'function'
}

/** The engine's address, used in messages. */
export function endpointOf({ modem }: DockerClient): string {
  const { host, port, protocol, socketPath } = modem
  if (typeof host === 'string' && host !== '') {
    const scheme = typeof protocol === 'string' ? protocol : 'http'
    return `${scheme === 'http' ? 'tcp' : scheme}://${host}${typeof port === 'string' || typeof port === 'number' ? `:${port}` : ''}`
  }
  const path = typeof socketPath === 'string' ? socketPath : '/var/run/docker.sock'
  // On Windows, the path names a pipe.
  const isPipe = path.startsWith('//') || path.startsWith('\\\\')
  return `${isPipe ? 'npipe' : 'unix'}://${path}`
}

/** The machine that a remote engine runs on; undefined if the engine runs on this machine. */
export function remoteHostOf({ modem }: DockerClient): string | undefined {
  const host = typeof modem.host === 'string' ? modem.host.replace(/^\w+:\/\//, '') : ''
  return host === '' || isLoopback(host) ? undefined : host
}

/** Also yields an unterminated last line. */
export async function* linesOf(chunks: AsyncIterable<Buffer | string>): AsyncGenerator<string> {
  const decoder = new StringDecoder('utf8')
  let rest = ''
  for await (const chunk of chunks) {
    rest += typeof chunk === 'string' ? chunk : decoder.write(chunk)
    const lines = rest.split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines) yield line.endsWith('\r') ? line.slice(0, -1) : line
  }
  rest += decoder.end()
  if (rest !== '') yield rest
}

/** Skips lines that are not valid JSON: they were cut off when the connection ended. */
export async function* jsonLinesOf(stream: Readable): AsyncGenerator {
  for await (const line of linesOf(stream)) {
    if (line === '') continue
    let value: unknown
    try {
      value = JSON.parse(line)
    } catch {
      continue
    }
    yield value
  }
}

const headBytes = 8

/**
 * Splits the log stream of a container without a terminal into frames. Each frame has an 8-byte header: the first byte
 * identifies the stream, and the last four contain the payload's length.
 */
export async function* framesOf(stream: Readable): AsyncGenerator<{ readonly from: number; readonly payload: Buffer }> {
  let pending = Buffer.alloc(0)
  for await (const chunk of stream) {
    pending = Buffer.concat([pending, typeof chunk === 'string' ? Buffer.from(chunk) : chunk])
    while (pending.length >= headBytes) {
      const end = headBytes + pending.readUInt32BE(4)
      if (pending.length < end) break
      yield { from: pending[0] ?? 0, payload: pending.subarray(headBytes, end) }
      pending = pending.subarray(end)
    }
  }
}
