/** Body parsers leave what they made of the body in `body`; @hono/node-server and these routes look in `rawBody`. */
import type { IncomingMessage } from 'node:http'

export interface ParsedMessage extends IncomingMessage {
  rawBody?: unknown
}

/** `holder`: where a parser of this framework leaves it. */
export function keepParsedBody(request: ParsedMessage, holder: { readonly body?: unknown }): void {
  const { body } = holder
  // A parser that has left the stream alone may still have put `{}` there.
  if (!request.readableDidRead || body === undefined || request.rawBody !== undefined) return
  try {
    request.rawBody = Buffer.isBuffer(body) ? body : Buffer.from(typeof body === 'string' ? body : JSON.stringify(body))
  } catch {
    // Nested too deep to be written: the routes will say that the body cannot be read.
  }
}
