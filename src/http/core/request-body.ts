/** Reads a request's body up to a size limit, from Node's stream or from a web-standard Request. */
import type { IncomingMessage } from 'node:http'
import { FleetError } from '../../contracts/errors.js'
import { HttpError } from './http-response.js'
import { isBytes } from '../../rules/model/realms.js'

/** 1 MiB. */
export const defaultMaxBodyBytes = 1_048_576

/** Properties that a body parser may have set on the request before the routes receive it. */
export interface ParsedMessage extends IncomingMessage {
  readonly rawBody?: unknown
  readonly body?: unknown
}

export function readNodeBody(incoming: ParsedMessage, maxBytes: number): Promise<Uint8Array> {
  const parsed = incoming.readableDidRead || incoming.rawBody !== undefined ? parsedBody(incoming) : undefined
  if (parsed !== undefined) {
    return parsed.byteLength > maxBytes ? Promise.reject(tooLarge(maxBytes)) : Promise.resolve(parsed)
  }
  if (incoming.readableDidRead) return Promise.reject(alreadyRead())
  return new Promise((resolve, reject) => {
    if (incoming.destroyed) return reject(disconnected(incoming.errored))
    let first: Buffer | undefined
    let more: Buffer[] | undefined
    let bytes = 0
    incoming.on('data', (chunk: Buffer) => {
      bytes += chunk.length
      // `discardRest` reads the remainder after the response has been sent.
      if (bytes > maxBytes) reject(tooLarge(maxBytes))
      else if (first === undefined) first = chunk
      else (more ??= [first]).push(chunk)
    })
    incoming.on('end', () => resolve(more === undefined ? (first ?? new Uint8Array()) : Buffer.concat(more)))
    incoming.on('error', (error) => reject(disconnected(error)))
  })
}

/** Returns the body that a parser has already read. If only the parsed value is left, serializes it as JSON again. */
function parsedBody({ rawBody, body, readableDidRead }: ParsedMessage): Uint8Array | undefined {
  if (isBytes(rawBody)) return rawBody
  // A parser that has not read the stream may have set `body` to `{}`.
  if (!readableDidRead || body === undefined) return undefined
  if (isBytes(body)) return body
  try {
    return Buffer.from(typeof body === 'string' ? body : JSON.stringify(body))
  } catch {
    return undefined // Nested too deeply for JSON.stringify.
  }
}

export async function readWebBody(request: Request, maxBytes: number): Promise<Uint8Array> {
  if (request.bodyUsed) throw alreadyRead()
  const declared = request.headers.get('content-length')
  if (Number(declared) > maxBytes) throw tooLarge(maxBytes)
  try {
    if (declared !== null && !request.headers.has('transfer-encoding')) {
      const bytes = new Uint8Array(await request.arrayBuffer())
      if (bytes.byteLength > maxBytes) throw tooLarge(maxBytes)
      return bytes
    }
    return await readStream(request.body, maxBytes)
  } catch (error) {
    if (error instanceof HttpError) throw error
    throw request.signal.aborted ? disconnected(error) : alreadyRead(error)
  }
}

async function readStream(stream: ReadableStream<Uint8Array> | null, maxBytes: number): Promise<Uint8Array> {
  if (stream === null) return new Uint8Array()
  const reader = stream.getReader()
  const chunks: Uint8Array[] = []
  let bytes = 0
  for (;;) {
    const { done, value } = await reader.read()
    if (done) return Buffer.concat(chunks)
    bytes += value.byteLength
    if (bytes > maxBytes) {
      await reader.cancel()
      throw tooLarge(maxBytes)
    }
    chunks.push(value)
  }
}

function tooLarge(maxBytes: number): HttpError {
  return new HttpError(413, 'invalid', `body is larger than ${maxBytes} bytes`)
}

function disconnected(cause: unknown): FleetError {
  return new FleetError('aborted', 'the client disconnected before its request was complete', { cause })
}

function alreadyRead(cause?: unknown): FleetError {
  const message =
    'cannot read the body: a middleware in front of these routes consumed it and left neither body nor rawBody'
  return new FleetError('internal', message, { cause })
}
