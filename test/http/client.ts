/**
 * * Clients for tests of HTTP APIs: a well-behaved one, which checks every answer against the OpenAPI document, and a raw
 * * socket that can send anything.
 */
import { createServer, request as httpRequest, type RequestListener } from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { documented, documentedErrors, type Validate } from './validated.js'

export interface Reply {
  readonly status: number
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly text: string
}

export interface CallOptions {
  readonly headers?: Readonly<Record<string, string>>
  /** Strings and bytes are sent unchanged, with their length; other values as JSON. */
  readonly body?: unknown
  readonly signal?: AbortSignal
  /** Returns what is wrong with the response. Default: checks it against the OpenAPI document of all routes; false: no check. */
  readonly validate?: Validate | false
}

/** One request on its own connection. The path is sent unchanged. */
export function call(method: string, url: string, options: CallOptions = {}): Promise<Reply> {
  const { origin } = new URL(url)
  const { hostname, port } = new URL(origin)
  const body = bytesOf(options.body)
  return new Promise((resolve, reject) => {
    const request = httpRequest(
      {
        method,
        hostname,
        port,
        path: url.slice(origin.length) || '/',
        agent: false,
        headers: {
          ...(body && !options.headers?.['Transfer-Encoding'] && { 'Content-Length': String(body.length) }),
          ...options.headers,
        },
        ...(options.signal && { signal: options.signal }),
      },
      (response) => {
        const chunks: Buffer[] = []
        response.on('data', (chunk: Buffer) => chunks.push(chunk))
        response.on('error', reject)
        response.on('end', () => {
          const { statusCode: status = 0, headers } = response
          const text = Buffer.concat(chunks).toString()
          const { validate = documented } = options
          const problem =
            validate === false ? undefined : validate({ method, path: request.path, status, headers, text })
          if (problem === undefined) resolve({ status, headers, text })
          else reject(new Error(problem))
        })
      },
    )
    request.on('error', reject)
    request.end(body)
  })
}

/** A call to a fake fleet, whose successful responses are not checked. */
export function callFake(method: string, url: string, options: CallOptions = {}): Promise<Reply> {
  return call(method, url, { validate: documentedErrors, ...options })
}

function bytesOf(body: unknown): Buffer | undefined {
  if (body === undefined) return undefined
  if (body instanceof Uint8Array) return Buffer.from(body)
  return Buffer.from(typeof body === 'string' ? body : JSON.stringify(body))
}

export interface RawConnection {
  readonly socket: Socket
  /** Everything received so far. */
  received(): string
  /** Resolves with everything received once it matches; rejects if the other side closes first, or after 5 s. */
  until(pattern: RegExp): Promise<string>
  /** Resolves with everything received once the other side has closed. */
  closed(): Promise<string>
}

export function rawConnection(url: string, bytes = ''): RawConnection {
  const { hostname, port } = new URL(url)
  const socket = connect(Number(port), hostname)
  let received = ''
  let ended = false
  socket.on('data', (chunk: Buffer) => (received += chunk.toString('latin1')))
  socket.on('error', () => {})
  socket.on('close', () => (ended = true))
  if (bytes !== '') socket.write(bytes)
  return {
    socket,
    received: () => received,
    async until(pattern) {
      await until(() => ended || pattern.test(received))
      if (!pattern.test(received)) throw new Error(`the connection was closed after: ${received}`)
      return received
    },
    async closed() {
      await until(() => ended)
      return received
    },
  }
}

/** Polls the condition until it is true; rejects after the limit. */
export async function until(condition: () => boolean | Promise<boolean>, limitMs = 60_000): Promise<void> {
  const end = performance.now() + limitMs
  while (!(await condition())) {
    if (performance.now() > end) throw new Error(`not within ${limitMs} ms: ${condition.toString()}`)
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
}

export interface Listener {
  readonly url: string
  close(): Promise<void>
}

/** A plain `node:http` server on a free port. */
export async function listening(listener: RequestListener): Promise<Listener> {
  const server = createServer(listener)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}
