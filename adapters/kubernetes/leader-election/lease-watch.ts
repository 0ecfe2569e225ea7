/** Watches a Lease, so that a host that does not lead needs no requests to learn that the leader is alive. */
import type { Clock } from '../../../src/contracts/clock.js'
import type { Logger } from '../../../src/contracts/logger.js'
import { statusOf } from '../client/api-errors.js'
import type { KubernetesApi } from '../client/api.js'
import { type KubeObject, leases, pathOf } from '../client/kube-objects.js'
import { watchCollection } from '../client/watch.js'

export interface LeaseWatchDependencies {
  readonly api: KubernetesApi
  readonly clock: Clock
  readonly logger: Logger
  readonly namespace: string
  readonly name: string
}

export interface LeaseWatchListener {
  /** Undefined: the Lease does not exist. */
  seen(lease: KubeObject | undefined): void
  /** Whether changes are reported from now on. */
  following(isFollowing: boolean): void
}

/** Watches until the returned function is called. Gives up if this host may not watch Leases; it then finds out by polling. */
export function watchLease(deps: LeaseWatchDependencies, listener: LeaseWatchListener): () => void {
  const { api, clock, logger, namespace, name } = deps
  const query = { fieldSelector: `metadata.name=${name}` }
  const stop = watchCollection(
    { api, clock, logger, what: 'the leader lease', path: pathOf(leases, { namespace }), query },
    {
      listed: (objects) => listener.seen(objects.find(({ metadata }) => metadata.name === name)),
      changed: (object) => listener.seen(object),
      deleted: () => listener.seen(undefined),
      followed: () => listener.following(true),
      broken: (error) => {
        listener.following(false)
        if (statusOf(error) !== 403) return
        stop()
        logger.warn({ namespace }, 'not allowed to watch leases: takes over later when the leader shuts down')
      },
    },
  )
  return stop
}
