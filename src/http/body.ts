/** Reads the body of a request: JSON within bounds of size and depth, whatever the request's headers claim. */
import type { IncomingMessage } from 'node:http'
import type { Context } from 'hono'
import { FleetError, messageOf } from '../errors.js'
import { nodeExchangeOf, Refusal } from './exchange.js'

/** 1 MiB. */
export const defaultMaxBodyBytes = 1_048_576

/** Throws a Refusal: 413 for a body over `maxBytes`, 400 for one that is not JSON. Any content type will do, but see below. */
export async function readJson(c: Context, maxBytes: number): Promise<unknown> {
  refuseForgery(c)
  const incoming = nodeExchangeOf(c)?.incoming
  const bytes = incoming === undefined ? await readWeb(c, maxBytes) : await readNode(incoming, maxBytes)
  const text = decode(bytes)
  refuseDeep(text)
  try {
    return JSON.parse(text)
  } catch (error) {
    throw new Refusal(400, `body is not JSON: ${messageOf(error)}`)
  }
}

/**
 * A page of any web site may send a body to this address unasked, as long as it does not call it JSON; it cannot hide
 * its `Origin`. So what a browser sends must say that it is JSON, which a page of another site may not do unasked.
 */
function refuseForgery(c: Context): void {
  const { headers } = c.req.raw
  if (headers.get('origin') === null) return
  const type = headers.get('content-type') ?? ''
  if (!/^application\/([\w.-]+\+)?json\s*(;|$)/i.test(type)) {
    throw new Refusal(400, `Content-Type must be application/json in what a browser sends, but is "${type}"`)
  }
}

const utf8 = new TextDecoder('utf-8', { fatal: true })

function decode(bytes: Uint8Array): string {
  if (bytes.byteLength === 0) throw new Refusal(400, 'body must be JSON, but is empty')
  try {
    return utf8.decode(bytes)
  } catch {
    throw new Refusal(400, 'body must be JSON in UTF-8, but holds bytes that are not UTF-8')
  }
}

const maxDepth = 100
const quote = 0x22
const backslash = 0x5c

/** What is parsed here is written again with recursion: a body of brackets only would end a later call, not this one. */
function refuseDeep(text: string): void {
  if (text.length <= 2 * maxDepth) return
  let depth = 0
  let quoted = false
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i)
    if (quoted) {
      if (code === backslash) i++
      else if (code === quote) quoted = false
    } else if (code === quote) quoted = true
    else if (code === 0x5b || code === 0x7b) {
      if (++depth > maxDepth) throw new Refusal(400, `body is nested deeper than ${maxDepth} levels`)
    } else if (code === 0x5d || code === 0x7d) depth--
  }
}

function tooLarge(maxBytes: number): Refusal {
  return new Refusal(413, `body is larger than ${maxBytes} bytes`)
}

function readNode(incoming: IncomingMessage & { readonly rawBody?: unknown }, maxBytes: number): Promise<Uint8Array> {
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
      // What is still to come is read and forgotten by @hono/node-server, within bounds, once the answer is out.
      if (bytes > maxBytes) reject(tooLarge(maxBytes))
      else if (first === undefined) first = chunk
      else (more ??= [first]).push(chunk)
    })
    incoming.on('end', () => resolve(more === undefined ? (first ?? new Uint8Array()) : Buffer.concat(more)))
    incoming.on('error', (error) => reject(goneAway(error)))
  })
}

async function readWeb(c: Context, maxBytes: number): Promise<Uint8Array> {
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
    if (error instanceof Refusal) throw error
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

function goneAway(cause: unknown): FleetError {
  return new FleetError('aborted', 'the client went away before its request was complete', { cause })
}

function alreadyRead(cause?: unknown): FleetError {
  const message =
    'the body cannot be read: a middleware before these routes has taken it and left neither body nor rawBody'
  return new FleetError('internal', message, { cause })
}
