/**
 * What a handler sees of a request, and what it gives for an answer. Two ways lead to the same answers: `web-exchange.ts`
 * for a Hono app of any host, `node-exchange.ts` straight over `node:http`.
 */

export interface Exchange {
  readonly method: string
  /** The first of that name, decoded. */
  query(name: string): string | undefined
  /** What stands in the path where the pattern has `:name`, decoded. */
  param(name: string): string
  /** `name` in lower case. */
  header(name: string): string | undefined
  /** Once only. Rejects with a Refusal when it is longer. */
  body(maxBytes: number): Promise<Uint8Array>
  /** Fires when the client goes away. */
  signal(): AbortSignal
}

export interface Answer {
  readonly status: number
  /** JSON. Absent: no content. */
  readonly body?: string
  readonly headers?: Readonly<Record<string, string>>
}

export const jsonType = 'application/json'

export function json(status: number, value: unknown): Answer {
  return { status, body: JSON.stringify(value) }
}

/** Every error body of every surface. */
export function failure(status: number, message: string, headers?: Readonly<Record<string, string>>): Answer {
  const body = JSON.stringify({ error: message })
  return headers === undefined ? { status, body } : { status, body, headers }
}

/** What is thrown where an answer is due that is not the handler's own. */
export class Refusal extends Error {
  override readonly name = 'Refusal'
  readonly answer: Answer

  constructor(status: number, message: string) {
    super(message)
    this.answer = failure(status, message)
  }
}
