/** Labels a pod as active, so that node autoscalers and PodDisruptionBudgets protect it from eviction. */
import { statusOf } from '../client/api-errors.js'
import type { KubernetesApi } from '../client/api.js'
import { pathOf, pods as podType } from '../client/kube-objects.js'
import { evictAnnotation, type Names } from './labels.js'
import type { PodSnapshot } from './pod-snapshot.js'

export interface ActiveLabelDependencies {
  readonly api: KubernetesApi
  readonly names: Names
}

/** Does nothing if the pod already has the label or no longer exists. */
export async function labelActive(
  { identity, pod, podUid }: PodSnapshot,
  { api, names }: ActiveLabelDependencies,
  signal: AbortSignal | undefined,
): Promise<void> {
  const { ref } = identity
  const { labels = {}, annotations = {} } = pod.metadata ?? {}
  if (labels[names.active] === 'true' && annotations[evictAnnotation] === 'false') return
  const metadata = { uid: podUid, labels: { [names.active]: 'true' }, annotations: { [evictAnnotation]: 'false' } }
  try {
    const what = `label pod ${ref.name} as active`
    await api.request({ what, method: 'PATCH', path: pathOf(podType, ref), body: { metadata }, signal })
  } catch (error) {
    const status = statusOf(error)
    // The pod was deleted, or replaced by another pod.
    if (status !== 404 && status !== 409) throw error
  }
}
