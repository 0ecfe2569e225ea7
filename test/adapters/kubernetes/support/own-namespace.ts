/** The namespace of a test file on the cluster. */
import { afterAll, beforeAll } from 'vitest'
import type { KubernetesApi } from '../../../../adapters/kubernetes/client/api.js'
import { clusterApi, makeNamespace, removeNamespace } from './cluster.js'
import { installDefinitions } from './definitions.js'
import { closeAll } from './support.js'

/**
 * Call in `describeOnCluster`. Installs the definitions and creates a namespace before the tests; after them, closes the backends,
 * calls `cleanUp` and deletes the namespace. Returns a function that returns its name.
 */
export function ownNamespace(cleanUp?: (api: KubernetesApi, namespace: string) => Promise<void>): () => string {
  const api = clusterApi()
  let name = ''
  beforeAll(async () => {
    await installDefinitions()
    name = await makeNamespace(api)
  }, 60_000)
  afterAll(async () => {
    await closeAll()
    if (name !== '') {
      await cleanUp?.(api, name)
      await removeNamespace(api, name)
    }
    api.close()
  }, 60_000)
  return () => name
}
