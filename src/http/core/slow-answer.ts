/** Answers calls that may take hours, such as a drain, over a connection that proxies would otherwise cut as idle. */
import { systemClock } from '../../contracts/clock.js'
import { within } from '../../util/within.js'
import { type HttpResponse, json, jsonType } from './http-response.js'

/** A call that fails does so within this time, so that its answer has the right status. */
const beginMs = 1_000
const keepAliveMs = 15_000

/**
 * Answers like `json` if the result is there soon. Otherwise the answer starts with line breaks, which JSON allows, one every 15 s,
 * and ends with the result. If the call fails later, the connection is cut. Rejects if the call fails soon.
 */
export async function slowAnswer(call: Promise<unknown>): Promise<HttpResponse> {
  const result = call.then((value) => ({ value }))
  const soon = await within(beginMs, result, systemClock)
  if (soon) return json(200, soon.value)
  const headers = { 'Content-Type': jsonType, 'Cache-Control': 'no-store', 'X-Accel-Buffering': 'no' }
  return { status: 200, headers, stream: lineBreaksUntil(result) }
}

async function* lineBreaksUntil(result: Promise<{ readonly value: unknown }>): AsyncGenerator<string> {
  for (;;) {
    yield '\n'
    const settled = await within(keepAliveMs, result, systemClock)
    if (settled === undefined) continue
    yield JSON.stringify(settled.value)
    return
  }
}
