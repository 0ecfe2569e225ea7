/** The HTTP client of scaling webhooks: small answers, in time, from the URL itself and no other. */
import type { Clock } from '../contracts/clock.js'
import { fetchReason, FleetError } from '../contracts/errors.js'
import type { AskWebhook } from '../contracts/scaling-demand.js'
import { shown } from '../rules/validation/problem.js'
import { eitherSignal } from '../util/signals.js'

const maxBytes = 64 * 1_024

/** Rejects with `unavailable`. */
export function webhookClient(clock: Clock): AskWebhook {
  return async ({ url, body, timeoutMs, signal }) => {
    const attempt = eitherSignal(signal, undefined)
    const cancel = clock.after(timeoutMs, () => attempt.abort(new Error(`no answer within ${timeoutMs / 1_000} s`)))
    try {
      const response = await fetch(url, {
        method: 'POST',
        headers: { 'Content-Type': 'application/json', Accept: 'application/json' },
        body: JSON.stringify(body),
        // An origin that is allowed must not lead to another.
        redirect: 'manual',
        signal: attempt.signal,
      })
      if (response.status === 200) return parsed(await textOf(response))
      await response.body?.cancel()
      throw new Error(`it answered with status ${response.status}`)
    } catch (error) {
      throw new FleetError('unavailable', fetchReason(error), { cause: error })
    } finally {
      cancel()
      attempt.release()
    }
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw new Error(`the answer must be JSON, but is ${shown(text)}`)
  }
}

async function textOf({ body }: Response): Promise<string> {
  const chunks: AsyncIterable<Uint8Array> | null = body
  const decoder = new TextDecoder()
  let text = ''
  let bytes = 0
  // Leaving the loop cancels the rest.
  for await (const chunk of chunks ?? []) {
    bytes += chunk.byteLength
    if (bytes > maxBytes) throw new Error(`the answer has more than ${maxBytes / 1_024} KiB`)
    text += decoder.decode(chunk, { stream: true })
  }
  return text + decoder.decode()
}
