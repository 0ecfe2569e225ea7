/** Marks the pod of a match, so that whoever takes nodes away leaves its own. */
import { statusOf } from '../client/api-errors.js'
import type { KubernetesApi } from '../client/api.js'
import { pathOf, pods as podType } from '../client/kube-objects.js'
import { evictAnnotation, type Names } from './labels.js'
import type { PodSnapshot } from './pod-snapshot.js'

/** One that is marked already is left alone, and one that has gone needs no mark. */
export async function markActive(
  { identity, pod, podUid }: PodSnapshot,
  {
    api,
    names,
    signal,
  }: { readonly api: KubernetesApi; readonly names: Names; readonly signal: AbortSignal | undefined },
): Promise<void> {
  const { ref } = identity
  const { labels = {}, annotations = {} } = pod.metadata ?? {}
  if (labels[names.active] === 'true' && annotations[evictAnnotation] === 'false') return
  const metadata = { uid: podUid, labels: { [names.active]: 'true' }, annotations: { [evictAnnotation]: 'false' } }
  try {
    const what = `mark pod ${ref.name} as played on`
    await api.request({ what, method: 'PATCH', path: pathOf(podType, ref), body: { metadata }, signal })
  } catch (error) {
    const status = statusOf(error)
    // Gone, or another one by now.
    if (status !== 404 && status !== 409) throw error
  }
}
