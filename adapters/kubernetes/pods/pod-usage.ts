/** What a pod's game uses, from the metrics API, which a cluster has if it runs metrics-server. */
import type { InstanceUsage } from '../../../src/contracts/backend.js'
import type { CallOptions } from '../../../src/contracts/call-options.js'
import { FleetError } from '../../../src/contracts/errors.js'
import { keyOf } from '../../../src/rules/model/resources.js'
import { objectAt, objectsAt, stringAt } from '../../../src/rules/validation/pod-template.js'
import { isObject } from '../../../src/rules/validation/problem.js'
import { quantityOf } from '../../../src/rules/model/quantity.js'
import { reasonOf, statusOf } from '../client/api-errors.js'
import type { KubernetesApi } from '../client/api.js'
import { pathOf, resourceType } from '../client/kube-objects.js'
import type { PodSnapshot } from './pod-objects.js'

const podMetrics = resourceType('metrics.k8s.io', 'v1beta1', 'pods', 'PodMetrics')

interface Measured {
  readonly api: Pick<KubernetesApi, 'request'>
  readonly snapshot: PodSnapshot
}

/** Averages of about the last minute. Rejects with `unsupported` without a metrics API, and with `not-found` while it knows nothing of the pod. */
export async function podUsage({ api, snapshot }: Measured, { signal }: CallOptions): Promise<InstanceUsage> {
  const { ref, container } = snapshot.identity
  const what = `measure pod ${ref.name}`
  const unknown = (cause?: unknown) =>
    new FleetError('not-found', `the cluster has no metrics of pod ${keyOf(ref)} yet`, { cause })
  let metrics: unknown
  try {
    metrics = await api.request({ what, method: 'GET', path: pathOf(podMetrics, ref), signal })
  } catch (error) {
    if (statusOf(error) === 403)
      throw new FleetError('unsupported', 'this host may not get pods of metrics.k8s.io: its role lacks the rule', {
        cause: error,
      })
    if (statusOf(error) !== 404) throw error
    if (reasonOf(error) === 'NotFound') throw unknown(error)
    const message = 'the cluster has no metrics API: install metrics-server'
    throw new FleetError('unsupported', message, { cause: error })
  }
  const containers = isObject(metrics) ? objectsAt(metrics, 'containers') : []
  const game = containers.find((one) => stringAt(one, 'name') === container)
  const usage = game && objectAt(game, 'usage')
  const memoryBytes = quantityOf((usage && stringAt(usage, 'memory')) ?? '')
  const cpuCores = quantityOf((usage && stringAt(usage, 'cpu')) ?? '')
  if (Number.isNaN(memoryBytes) || Number.isNaN(cpuCores)) throw unknown()
  return { memoryBytes, cpuCores }
}
