/** Makes one attempt to deliver an event to a webhook's URL. May use the network. */
import { messageOf } from '../../contracts/errors.js'
import type { StreamedEvent } from '../api/event-stream.js'
import type { WebhookSettings } from './options.js'
import { signWebhook, webhookHeaders } from './signature.js'
import { isError } from '../../rules/model/realms.js'

export interface FailedAttempt {
  readonly reason: string
  /** Delay from the receiver's `Retry-After` header, or 0 if there is none. */
  readonly retryAfterMs: number
}

/** `id` is the same for every attempt to deliver an event. Resolves with undefined on success. Never rejects. */
export async function sendEvent(
  event: StreamedEvent,
  id: string,
  { url, headers, key, timeoutMs, clock }: WebhookSettings,
  stopped: AbortSignal,
): Promise<FailedAttempt | undefined> {
  const timestamp = Math.floor(clock.now() / 1000)
  const body = JSON.stringify(event)
  const attempt = new AbortController()
  const cancelTimeout = clock.after(timeoutMs, () =>
    attempt.abort(new Error(`no response within ${timeoutMs / 1000} s`)),
  )
  const onStopped = () => attempt.abort(stopped.reason)
  if (stopped.aborted) onStopped()
  stopped.addEventListener('abort', onStopped)
  try {
    const response = await fetch(url, {
      method: 'POST',
      headers: {
        ...headers,
        'Content-Type': 'application/json',
        [webhookHeaders.id]: id,
        [webhookHeaders.timestamp]: String(timestamp),
        [webhookHeaders.signature]: signWebhook(key, id, timestamp, body),
      },
      body,
      redirect: 'manual',
      signal: attempt.signal,
    })
    await response.body?.cancel()
    if (response.ok) return undefined
    const seconds = Number(response.headers.get('retry-after') ?? 0)
    return { reason: `the receiver answered with ${response.status}`, retryAfterMs: seconds > 0 ? seconds * 1000 : 0 }
  } catch (error) {
    return { reason: reasonOf(error), retryAfterMs: 0 }
  } finally {
    cancelTimeout()
    stopped.removeEventListener('abort', onStopped)
  }
}

/** `fetch` itself only reports `fetch failed`; the reason is in the error's cause. */
function reasonOf(error: unknown): string {
  return isError(error) && error.cause !== undefined ? messageOf(error.cause) : messageOf(error)
}
