/** Watches a Lease and reports when its holder releases it, so that another host takes over at once. */
import type { Clock } from '../../../src/contracts/clock.js'
import type { Logger } from '../../../src/contracts/logger.js'
import { statusOf } from '../client/api-errors.js'
import type { KubernetesApi } from '../client/api.js'
import { leases, pathOf } from '../client/kube-objects.js'
import { watchCollection } from '../client/watch.js'
import { isReleased } from './lease.js'

export interface ReleaseWatchDependencies {
  readonly api: KubernetesApi
  readonly clock: Clock
  readonly logger: Logger
  readonly namespace: string
  readonly name: string
}

/** Watches until the returned function is called. Gives up if this host may not watch Leases; it then finds out by polling. */
export function watchForRelease(deps: ReleaseWatchDependencies, onRelease: () => void): () => void {
  const { api, clock, logger, namespace, name } = deps
  const query = { fieldSelector: `metadata.name=${name}` }
  const stop = watchCollection(
    { api, clock, logger, what: 'the leader lease', path: pathOf(leases, { namespace }), query },
    {
      listed: (objects) => {
        if (objects.some(isReleased)) onRelease()
      },
      changed: (object) => {
        if (isReleased(object)) onRelease()
      },
      deleted: () => {},
      broken: (error) => {
        if (statusOf(error) !== 403) return
        stop()
        logger.warn({ namespace }, 'not allowed to watch leases: takes over later when the leader shuts down')
      },
    },
  )
  return stop
}
