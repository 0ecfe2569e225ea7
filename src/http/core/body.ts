/** Reads the bytes of a body within a bound: from Node's stream, or from the web standard's. */
import type { IncomingMessage } from 'node:http'
import type { Context } from 'hono'
import { FleetError } from '../../contracts/errors.js'
import { HttpError } from './exchange.js'

/** 1 MiB. */
export const defaultMaxBodyBytes = 1_048_576

/** A body parser before these routes leaves what it has read in `rawBody`. */
interface ParsedMessage extends IncomingMessage {
  readonly rawBody?: unknown
}

export function readNodeBody(incoming: ParsedMessage, maxBytes: number): Promise<Uint8Array> {
  const { rawBody } = incoming
  if (rawBody instanceof Uint8Array) {
    return rawBody.byteLength > maxBytes ? Promise.reject(tooLarge(maxBytes)) : Promise.resolve(rawBody)
  }
  if (incoming.readableDidRead) return Promise.reject(alreadyRead())
  return new Promise((resolve, reject) => {
    if (incoming.destroyed) return reject(goneAway(incoming.errored))
    let first: Buffer | undefined
    let more: Buffer[] | undefined
    let bytes = 0
    incoming.on('data', (chunk: Buffer) => {
      bytes += chunk.length
      // What is still to come is read and forgotten once the answer is out.
      if (bytes > maxBytes) reject(tooLarge(maxBytes))
      else if (first === undefined) first = chunk
      else (more ??= [first]).push(chunk)
    })
    incoming.on('end', () => resolve(more === undefined ? (first ?? new Uint8Array()) : Buffer.concat(more)))
    incoming.on('error', (error) => reject(goneAway(error)))
  })
}

export async function readWebBody(c: Context, maxBytes: number): Promise<Uint8Array> {
  const request = c.req.raw
  const declared = request.headers.get('content-length')
  if (Number(declared) > maxBytes) throw tooLarge(maxBytes)
  try {
    // A middleware has read it before, and Hono keeps it; or its length is known, so that it can be read whole.
    if (request.bodyUsed || (declared !== null && !request.headers.has('transfer-encoding'))) {
      const bytes = new Uint8Array(await c.req.arrayBuffer())
      if (bytes.byteLength > maxBytes) throw tooLarge(maxBytes)
      return bytes
    }
    return await readStream(request.body, maxBytes)
  } catch (error) {
    if (error instanceof HttpError) throw error
    throw request.signal.aborted ? goneAway(error) : alreadyRead(error)
  }
}

async function readStream(stream: ReadableStream<Uint8Array> | null, maxBytes: number): Promise<Uint8Array> {
  if (stream === null) return new Uint8Array()
  const reader = stream.getReader()
  const chunks: Uint8Array[] = []
  let bytes = 0
  for (;;) {
    const { done, value } = await reader.read()
    if (done) break
    bytes += value.byteLength
    if (bytes > maxBytes) {
      await reader.cancel()
      throw tooLarge(maxBytes)
    }
    chunks.push(value)
  }
  const whole = new Uint8Array(bytes)
  let at = 0
  for (const chunk of chunks) {
    whole.set(chunk, at)
    at += chunk.byteLength
  }
  return whole
}

function tooLarge(maxBytes: number): HttpError {
  return new HttpError(413, `body is larger than ${maxBytes} bytes`)
}

function goneAway(cause: unknown): FleetError {
  return new FleetError('aborted', 'the client went away before its request was complete', { cause })
}

function alreadyRead(cause?: unknown): FleetError {
  const message =
    'the body cannot be read: a middleware before these routes has taken it and left neither body nor rawBody'
  return new FleetError('internal', message, { cause })
}
