/** The context that all parts of a soak test share, and host calls that are retried until a host answers. */
import { setTimeout as pause } from 'node:timers/promises'
import type { Answer } from '../e2e/client.js'
import { StopWaiting } from '../e2e/until.js'
import type { Apis, Hosts } from './host.js'
import type { ExpectedState } from './expected-state.js'

export interface SoakContext {
  readonly root: string
  readonly dataDir: string
  readonly ports: { readonly first: number; readonly last: number }
  readonly hosts: Hosts
  readonly expected: ExpectedState
  readonly random: () => number
  /** Aborted when the test has to stop at once. */
  readonly signal: AbortSignal
  /** Number of actions by description. */
  readonly counts: Map<string, number>
}

export function count(context: SoakContext, what: string): void {
  context.counts.set(what, (context.counts.get(what) ?? 0) + 1)
}

export function oneOf<T>({ random }: SoakContext, values: readonly T[]): T | undefined {
  return values[Math.floor(random() * values.length)]
}

/** Returns a random integer between the bounds, both inclusive. */
export function between({ random }: SoakContext, min: number, max: number): number {
  return min + Math.floor(random() * (max - min + 1))
}

/** Retries a request until a host answers. The request must be idempotent. */
export async function answered<T>(context: SoakContext, send: (apis: Apis) => Promise<T>): Promise<T> {
  const { hosts, expected, signal } = context
  for (;;) {
    signal.throwIfAborted()
    const { apis } = hosts
    if (apis) {
      try {
        return await send(apis)
      } catch (error) {
        if (error instanceof StopWaiting) {
          expected.violate(error.message)
          throw error
        }
        // The host was killed during the call, or it had just closed the connection.
        count(context, hosts.apis === apis ? 'calls aborted by a running host' : 'calls aborted by the end of a host')
      }
    }
    await pause(100, undefined, { signal })
  }
}

/** Calls the management API with a path below `/api/v1`. Retries server errors. */
export function manage(context: SoakContext, method: string, path: string, body?: object): Promise<Answer<unknown>> {
  return answered(context, async ({ management }) => {
    const response = await fetch(`${management}/api/v1/${path}`, {
      method,
      signal: AbortSignal.timeout(120_000),
      ...(body && { body: JSON.stringify(body) }),
    })
    const answer = { status: response.status, body: await response.json() }
    if (response.status >= 500) throw new Error(`answered ${response.status}: ${JSON.stringify(answer.body)}`)
    return answer
  })
}
