/** The namespaces of a test file on the cluster. */
import { afterAll, beforeAll } from 'vitest'
import type { KubernetesApi } from '../../../../adapters/kubernetes/client/api.js'
import { clusterApi, makeNamespace, namespaceName, removeNamespace } from './cluster.js'
import { installDefinitions } from './definitions.js'
import { closeAll } from './support.js'

type CleanUp = (api: KubernetesApi, namespace: string) => Promise<void>

export interface OwnNamespaces {
  /** An administrator's client, closed after the tests. */
  readonly api: KubernetesApi
  /** Creates a namespace that is deleted after the tests, and resolves with its name. */
  make(name?: string): Promise<string>
}

/**
 * Call in `describeOnCluster`. Installs the definitions before the tests; after them, closes the backends, calls `cleanUp` for each namespace
 * and deletes it.
 */
export function ownNamespaces(cleanUp?: CleanUp): OwnNamespaces {
  const api = clusterApi()
  const names: string[] = []
  beforeAll(installDefinitions, 300_000)
  afterAll(async () => {
    await closeAll()
    for (const name of names) {
      await cleanUp?.(api, name)
      await removeNamespace(api, name)
    }
    api.close()
  }, 300_000)
  return {
    api,
    async make(name = namespaceName()) {
      await makeNamespace(api, name)
      names.push(name)
      return name
    },
  }
}

/** Like `ownNamespaces`, with one namespace that is created before the tests. Returns a function that returns its name. */
export function ownNamespace(cleanUp?: CleanUp): () => string {
  const { make } = ownNamespaces(cleanUp)
  let name = ''
  beforeAll(async () => void (name = await make()), 300_000)
  return () => name
}
