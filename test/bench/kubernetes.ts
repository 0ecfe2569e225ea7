/** Connects benchmarks to the Kubernetes cluster from KUBECONFIG. */
import type { KubernetesApi } from '../../adapters/kubernetes/client/api.js'
import { messageOf } from '../../src/contracts/errors.js'
import { clusterApi } from '../adapters/kubernetes/support/cluster.js'
import { installDefinitions } from '../adapters/kubernetes/support/definitions.js'
import type { Row } from './row.js'

/** Measures on the cluster. If no cluster is reachable, logs the reason and returns no rows. */
export async function onCluster(
  names: readonly string[],
  measure: (api: KubernetesApi) => Promise<readonly Row[]>,
): Promise<readonly Row[]> {
  let api: KubernetesApi | undefined
  try {
    if (process.env['KUBECONFIG'] === undefined) throw new Error('KUBECONFIG is not set')
    api = clusterApi()
    await api.request({ what: 'read the server version', method: 'GET', path: '/version', timeoutMs: 10_000 })
  } catch (error) {
    api?.close()
    console.error(`left out ${names.join(', ')}: no Kubernetes cluster is reachable (${messageOf(error)})`)
    return []
  }
  try {
    await installDefinitions()
    return await measure(api)
  } finally {
    api.close()
  }
}
