/** `fetch` with own CA certificates or a client certificate, which the global one cannot be given. */
import { request } from 'node:https'
import { Readable } from 'node:stream'

export interface TlsFiles {
  readonly ca?: Buffer
  readonly cert?: Buffer
  readonly key?: Buffer
}

/** Sends text bodies only, which is what the client sends. */
export function tlsFetch(files: TlsFiles): (url: string, init: RequestInit) => Promise<Response> {
  return (url, { method = 'GET', headers, body, signal }) =>
    new Promise((resolve, reject) => {
      const options = { ...files, method, headers: Object.fromEntries(new Headers(headers)), ...(signal && { signal }) }
      const sent = request(url, options, (answer) => {
        const { statusCode: status = 500, headers: received } = answer
        const pairs = Object.entries(received).flatMap(([name, value]) =>
          value === undefined ? [] : [[name, String(value)] as [string, string]],
        )
        const hasBody = status !== 204 && status !== 304
        if (!hasBody) answer.resume()
        // The types of node:stream/web and of the global streams differ only in name.
        const stream = Readable.toWeb(answer) as ReadableStream
        resolve(new Response(hasBody ? stream : undefined, { status, headers: pairs }))
      })
      sent.on('error', reject)
      sent.end(typeof body === 'string' ? body : undefined)
    })
}
