/** Reads a request body as UTF-8 JSON, with limits on size and depth, and says why a body cannot be read. */
import { FleetError, messageOf } from '../../contracts/errors.js'
import type { Exchange } from './exchange.js'
import { HttpError } from './responses.js'

/** 1 MiB. */
export const defaultMaxBodyBytes = 1_048_576

/**
 * Accepts any content type, except in requests from browsers. Throws `invalid`, or an HttpError 413 if the body is longer
 * than `maxBytes`.
 */
export function readJson(exchange: Exchange, maxBytes: number): Promise<unknown> {
  refuseForgery(exchange)
  return exchange.body(maxBytes).then(parse)
}

function parse(bytes: Uint8Array): unknown {
  const text = decode(bytes)
  refuseDeep(text)
  try {
    return JSON.parse(text)
  } catch (error) {
    throw new FleetError('invalid', `body is not JSON: ${messageOf(error)}`)
  }
}

/** Like `readJson`, for a body that may be absent, which means `{}`. */
export async function readOptionalJson(exchange: Exchange, maxBytes: number): Promise<unknown> {
  refuseForgery(exchange)
  const bytes = await exchange.body(maxBytes)
  return bytes.byteLength === 0 ? {} : parse(bytes)
}

/**
 * Protects against CSRF. Any web page can send a body to this address without a CORS preflight unless the body is declared
 * as JSON, but the browser adds an `Origin` header. Requests with an `Origin` must therefore declare JSON, which makes the
 * browser send a preflight first.
 */
function refuseForgery(exchange: Exchange): void {
  if (exchange.header('origin') === undefined) return
  const type = exchange.header('content-type') ?? ''
  if (!/^application\/([\w.-]+\+)?json\s*(;|$)/i.test(type)) {
    throw new FleetError('invalid', `Content-Type must be application/json in a browser's request, but is "${type}"`)
  }
}

const utf8 = new TextDecoder('utf-8', { fatal: true })

function decode(bytes: Uint8Array): string {
  if (bytes.byteLength === 0) throw new FleetError('invalid', 'body must be JSON, but is empty')
  try {
    return utf8.decode(bytes)
  } catch {
    throw new FleetError('invalid', 'body must be JSON in UTF-8, but holds bytes that are not UTF-8')
  }
}

const maxDepth = 100
const quote = 0x22
const backslash = 0x5c

/** Rejects deeply nested JSON: JSON.stringify recurses, so serializing the parsed value later would overflow the stack. */
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
      if (++depth > maxDepth) throw new FleetError('invalid', `body is nested deeper than ${maxDepth} levels`)
    } else if (code === 0x5d || code === 0x7d) depth--
  }
}

export function tooLarge(maxBytes: number): HttpError {
  return new HttpError(413, 'invalid', `body is larger than ${maxBytes} bytes`)
}

export function disconnected(cause: unknown): FleetError {
  return new FleetError('aborted', 'the client disconnected before its request was complete', { cause })
}

export function alreadyRead(cause?: unknown): FleetError {
  const message =
    'cannot read the body: a middleware in front of these routes consumed it and left neither body nor rawBody'
  return new FleetError('internal', message, { cause })
}
