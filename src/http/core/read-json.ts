/** What a body says: JSON in UTF-8 within bounds of size and depth, whatever the request's headers claim. */
import { messageOf } from '../../contracts/errors.js'
import { type Exchange, HttpError } from './exchange.js'

/** Throws a Refusal: 413 for a body over `maxBytes`, 400 for one that is not JSON. Any content type will do, but see below. */
export async function readJson(exchange: Exchange, maxBytes: number): Promise<unknown> {
  refuseForgery(exchange)
  const text = decode(await exchange.body(maxBytes))
  refuseDeep(text)
  try {
    return JSON.parse(text)
  } catch (error) {
    throw new HttpError(400, `body is not JSON: ${messageOf(error)}`)
  }
}

/**
 * A page of any web site may send a body to this address unasked, as long as it does not call it JSON; it cannot hide
 * its `Origin`. So what a browser sends must say that it is JSON, which a page of another site may not do unasked.
 */
function refuseForgery(exchange: Exchange): void {
  if (exchange.header('origin') === undefined) return
  const type = exchange.header('content-type') ?? ''
  if (!/^application\/([\w.-]+\+)?json\s*(;|$)/i.test(type)) {
    throw new HttpError(400, `Content-Type must be application/json in what a browser sends, but is "${type}"`)
  }
}

const utf8 = new TextDecoder('utf-8', { fatal: true })

function decode(bytes: Uint8Array): string {
  if (bytes.byteLength === 0) throw new HttpError(400, 'body must be JSON, but is empty')
  try {
    return utf8.decode(bytes)
  } catch {
    throw new HttpError(400, 'body must be JSON in UTF-8, but holds bytes that are not UTF-8')
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
      if (++depth > maxDepth) throw new HttpError(400, `body is nested deeper than ${maxDepth} levels`)
    } else if (code === 0x5d || code === 0x7d) depth--
  }
}
