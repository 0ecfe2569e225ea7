/** Whether calls can be sent to this host: asks its store and its backend, and no more often than now and then. */
import type { Backend } from '../contracts/backend.js'
import type { Clock } from '../contracts/clock.js'
import { withTimeout } from '../util/with-timeout.js'
import { messageOf } from '../contracts/errors.js'
import type { FleetHealth } from '../contracts/fleet.js'
import type { Logger } from '../contracts/logger.js'
import type { Store } from '../contracts/store.js'

/** What the two have said holds for so long: a probe must not be a load. */
const freshMs = 2_000
/** Who asks wants to know now. */
const answerMs = 2_000

export interface HealthDependencies {
  readonly store: Store
  readonly backend: Backend
  readonly clock: Clock
  readonly logger: Logger
  /** Undefined while this host leads and hands out; else why it does not. */
  readonly notReadyReason: () => string | undefined
  readonly leads: () => boolean
}

export function healthCheck(parts: HealthDependencies): () => Promise<FleetHealth> {
  const { store, backend, clock } = parts
  const isStoreUp = probe(parts, 'the store', (signal) =>
    store.probe ? store.probe({ signal }) : store.builds.get({ namespace: 'default', name: 'x' }, { signal }),
  )
  const isBackendUp = probe(parts, `the ${backend.name} backend`, (signal) =>
    backend.probe ? backend.probe({ signal }) : backend.list({ signal }),
  )

  function probe(
    { logger }: HealthDependencies,
    what: string,
    ask: (signal: AbortSignal) => Promise<unknown>,
  ): () => Promise<string | undefined> {
    /** `at` is when it was answered. */
    let last: { at: number; readonly answer: Promise<string | undefined> } | undefined
    let said: string | undefined
    const asked = async () => {
      try {
        await withTimeout(clock, answerMs, what, ask)
        said = undefined
      } catch (error) {
        const problem = `${what} does not answer: ${messageOf(error)}`
        if (problem !== said) logger.warn({ error: messageOf(error) }, problem)
        said = problem
      }
      return said
    }
    return () => {
      if (last !== undefined && clock.elapsed() - last.at < freshMs) return last.answer
      const answer = asked()
      const mine = { at: Infinity, answer }
      last = mine
      void answer.then(() => (mine.at = clock.elapsed()))
      return answer
    }
  }

  return async () => {
    const [storeProblem, backendProblem] = await Promise.all([isStoreUp(), isBackendUp()])
    const problems = [parts.notReadyReason(), storeProblem, backendProblem].filter((problem) => problem !== undefined)
    return {
      ready: problems.length === 0,
      leads: parts.leads(),
      store: storeProblem === undefined,
      backend: backendProblem === undefined,
      problems,
    }
  }
}
