/** What all parts of a soak share, and how they call the host: again and again, until one of its lives answers. */
import { setTimeout as pause } from 'node:timers/promises'
import type { Answer } from '../e2e/client.js'
import { Hopeless } from '../e2e/until.js'
import type { Apis, Hosts } from './host.js'
import type { Ledger } from './ledger.js'

export interface Scene {
  readonly root: string
  readonly dataDir: string
  readonly ports: { readonly first: number; readonly last: number }
  readonly hosts: Hosts
  readonly ledger: Ledger
  readonly random: () => number
  /** Set when the soak is to stop at once. */
  readonly signal: AbortSignal
  /** How often each thing was done. */
  readonly counts: Map<string, number>
}

export function count(scene: Scene, what: string): void {
  scene.counts.set(what, (scene.counts.get(what) ?? 0) + 1)
}

export function oneOf<T>({ random }: Scene, values: readonly T[]): T | undefined {
  return values[Math.floor(random() * values.length)]
}

/** A whole number, both ends included. */
export function between({ random }: Scene, least: number, most: number): number {
  return least + Math.floor(random() * (most - least + 1))
}

/** What the first host says that answers at all. What is sent must bear being sent twice. */
export async function answered<T>(scene: Scene, send: (apis: Apis) => Promise<T>): Promise<T> {
  const { hosts, ledger, signal } = scene
  for (;;) {
    signal.throwIfAborted()
    const { apis } = hosts
    if (apis) {
      try {
        return await send(apis)
      } catch (error) {
        if (error instanceof Hopeless) {
          ledger.breach(error.message)
          throw error
        }
        // A host that was killed with the call in its hands; else a connection that it had just closed.
        count(scene, hosts.apis === apis ? 'calls broken off by a living host' : 'calls cut by the end of a host')
      }
    }
    await pause(100, undefined, { signal })
  }
}

/** Of a build or a server, by path below `/api/v1`. An answer that promises nothing is asked for again. */
export function manage(scene: Scene, method: string, path: string, body?: object): Promise<Answer<unknown>> {
  return answered(scene, async ({ management }) => {
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
