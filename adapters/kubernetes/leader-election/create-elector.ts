/** Creates the elector from the backend's options. */
import { hostname } from 'node:os'
import type { Clock } from '../../../src/contracts/clock.js'
import type { Elector } from '../../../src/contracts/elector.js'
import type { Logger } from '../../../src/contracts/logger.js'
import type { Ref } from '../../../src/rules/model/resources.js'
import type { KubernetesApi } from '../client/api.js'
import type { WriteFence } from '../client/write-fence.js'
import { leaseElector } from './elector.js'
import { withLeaderLabel } from './leader-label.js'
import { leaseName, type Scope } from './lease.js'

export interface CreateElectorInput {
  readonly api: KubernetesApi
  readonly clock: Clock
  readonly logger: Logger
  readonly fence: WriteFence
  readonly scope: Scope
  /** Namespace of the Lease. */
  readonly namespace: string
  readonly leaseMs: number
  /** Default: the host name plus a random suffix. */
  readonly identity: string | undefined
  /** Name of the pod that this host runs in, which is labelled while this host leads. */
  readonly pod: string | undefined
  /** Key of the leader label. */
  readonly label: string
  readonly hasRun: (signal: AbortSignal) => Promise<boolean>
  /** Reports that this host leads, about the Lease, as an Event. */
  readonly announce: (lease: Ref, message: string) => void
  /** Why this host must not lead. */
  readonly obstacle: () => string | undefined
}

export function createElector(input: CreateElectorInput): Required<Elector> {
  const { api, clock, logger, fence, scope, namespace, leaseMs, label, hasRun, announce, obstacle } = input
  const identity = input.identity ?? `${hostname()}-${Buffer.from(clock.randomBytes(4)).toString('hex')}`
  const name = leaseName(scope)
  const elector = leaseElector({
    api,
    clock,
    logger,
    namespace,
    name,
    identity,
    leaseMs,
    scope,
    fence,
    hasRun,
    announce: (message) => announce({ namespace, name }, message),
    obstacle,
  })
  if (input.pod === undefined) return elector
  const pod = { namespace: api.namespace ?? namespace, name: input.pod }
  return withLeaderLabel(elector, { api, clock, logger, label, pod })
}
