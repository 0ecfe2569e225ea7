/** Checks whether the fleet has any pods. Reads from the API server, not from the cache. */
import type { KubernetesApi } from '../client/api.js'
import { pathOf, pods as podType } from '../client/kube-objects.js'
import type { Names } from './labels.js'

export interface AnyPodsInput {
  readonly api: KubernetesApi
  readonly names: Names
  /** Undefined means all namespaces. */
  readonly namespaces: readonly string[] | undefined
  readonly timeoutMs: number
  readonly signal: AbortSignal | undefined
}

/** Bypasses the rate and connection limits, since leader election must not wait for other calls. */
export async function hasAnyPods({ api, names, namespaces, timeoutMs, signal }: AnyPodsInput): Promise<boolean> {
  const query = { labelSelector: names.server, limit: 1 }
  for (const namespace of namespaces ?? [undefined]) {
    const path = pathOf(podType, { namespace })
    const call = { what: 'list pods', method: 'GET', path, query, unlimited: true, timeoutMs, signal } as const
    if ((await api.list(call)).items.length > 0) return true
  }
  return false
}
