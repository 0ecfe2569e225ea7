import { beforeAll, describe, test } from 'vitest'
import { pathOf } from '../../../../adapters/kubernetes/client/kube-objects.js'
import { fleetResources } from '../../../../adapters/kubernetes/store/custom-collection.js'
import { type KubernetesStoreOptions, openKubernetesStore } from '../../../../adapters/kubernetes/store/store.js'
import { systemClock } from '../../../../src/contracts/clock.js'
import { silentLogger } from '../../../../src/contracts/logger.js'
import { defaultApiGroup } from '../../../../src/rules/model/wire.js'
import { storeConformance } from '../../../../src/testing/store-conformance.js'
import { namespaceName } from '../support/cluster.js'
import { describeOnCluster } from '../support/describe-on-cluster.js'
import { ownNamespaces } from '../support/own-namespace.js'

describeOnCluster('the store of custom resources', () => {
  const { api, make } = ownNamespaces()
  const namespaces = [namespaceName(), namespaceName()] as const
  beforeAll(async () => {
    for (const namespace of namespaces) await make(namespace)
  })

  const open = (options: Pick<KubernetesStoreOptions, 'term' | 'minGroup'> = {}) =>
    openKubernetesStore({
      api,
      clock: systemClock,
      logger: silentLogger,
      group: defaultApiGroup,
      systemNamespace: namespaces[0],
      namespaces,
      ...options,
    })

  async function empty(): Promise<void> {
    const { builds, servers, details, demand } = fleetResources()
    for (const resource of [builds, servers, details, demand]) {
      for (const namespace of namespaces) {
        await api.request({ what: 'empty it', method: 'DELETE', path: pathOf(resource, { namespace }) })
      }
    }
  }

  const cases = storeConformance({
    open: async () => {
      await empty()
      return open()
    },
    reopen: () => open(),
    openShared: () => open(),
    namespaces,
  })
  for (const { name, run } of cases) test(name, { timeout: 60_000 }, run)

  describe('when its host leads, and every allocation goes through the journal', () => {
    let term = 0
    const lead = async () => {
      const since = ++term
      const store = await open({ term: () => since, minGroup: 1 })
      // As a new leader does.
      await store.servers.list()
      return store
    }
    const led = storeConformance({
      open: async () => {
        await empty()
        return lead()
      },
      reopen: lead,
      namespaces,
    })
    for (const { name, run } of led) test(name, { timeout: 60_000 }, run)
  })
})
