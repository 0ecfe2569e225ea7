/** `kubectl describe gs` says why a server is still Pending. */
import { memoryBackend } from 'gamekeeper/memory'
import { beforeAll, expect, it, vi } from 'vitest'
import { pathOf } from '../../../../adapters/kubernetes/client/kube-objects.js'
import { watchCollection } from '../../../../adapters/kubernetes/client/watch.js'
import { fleetResources } from '../../../../adapters/kubernetes/store/custom-collection.js'
import type { BackendListener } from '../../../../src/contracts/backend.js'
import { systemClock } from '../../../../src/contracts/clock.js'
import { FleetError } from '../../../../src/contracts/errors.js'
import { silentLogger } from '../../../../src/contracts/logger.js'
import { defaultApiGroup } from '../../../../src/rules/model/wire.js'
import { until } from '../../../e2e/until.js'
import { kubectl, kubectlWith, namespaceName } from '../support/cluster.js'
import { describeOnCluster } from '../support/describe-on-cluster.js'
import { buildManifest, openFleet } from '../support/fleets.js'
import { ownNamespaces } from '../support/own-namespace.js'

describeOnCluster('a server that is Pending', () => {
  vi.setConfig({ testTimeout: 120_000 })
  const { api, make } = ownNamespaces()
  const namespace = namespaceName()
  const k = (...args: readonly string[]) => kubectl('-n', namespace, ...args)
  beforeAll(() => make(namespace))

  it('shows the reason in its status, cut to a length, once while it stays the same, and not when it has started', async () => {
    const backend = memoryBackend({ clock: systemClock })
    const create = backend.create.bind(backend)
    let refusal: string | undefined = 'no node has room'
    let attempts = 0
    backend.create = (...args) => {
      attempts++
      return refusal === undefined ? create(...args) : Promise.reject(new FleetError('unavailable', refusal))
    }
    const limits = { backoffInitialMs: 100, backoffMaxMs: 200 }
    await openFleet(api, namespace, { backend, limits, logger: silentLogger })
    await kubectlWith(buildManifest(namespace, 'arena', { standingBy: 1, max: 1 }), 'apply', '-f', '-')
    await until('it is shown', async () => (await k('describe', 'gs')).includes('no node has room'))
    const revision = () => k('get', 'gs', '-o', 'jsonpath={.items[*].metadata.resourceVersion}')
    const [before, enough] = [await revision(), attempts + 5]
    await until('it is refused again and again', () => attempts >= enough)
    expect(await revision()).toBe(before)
    refusal = 'x'.repeat(10_000)
    const message = () => k('get', 'gs', '-o', 'jsonpath={.items[*].status.message}')
    await until('the new reason is shown', async () => /^x+…$/.test(await message()))
    expect((await message()).length).toBeLessThanOrEqual(500)
    refusal = undefined
    await until('it has started', async () => (await k('get', 'gs')).includes('StandingBy'))
    expect(await message()).toBe('')
  })

  it('shows none if it has started a moment later, so that its start takes no requests for that', async () => {
    const messages: unknown[] = []
    const path = pathOf(fleetResources().servers, { namespace })
    const stop = watchCollection(
      { api, clock: systemClock, logger: silentLogger, what: 'game servers', path },
      {
        listed: () => {},
        changed: ({ metadata, status }) => {
          if (metadata.name.startsWith('harbour')) messages.push(Object(status)['message'])
        },
        deleted: () => {},
      },
    )
    const script = () => ({ startsAfterMs: 300, pendingReason: 'waiting to be scheduled' })
    await openFleet(api, namespace, { backend: memoryBackend({ clock: systemClock, script }), logger: silentLogger })
    await kubectlWith(buildManifest(namespace, 'harbour', { standingBy: 1, max: 1 }), 'apply', '-f', '-')
    const states = () =>
      k('get', 'gs', '-l', `${defaultApiGroup}/build=harbour`, '-o', 'jsonpath={.items[*].status.state}')
    await until('it has started', async () => (await states()) === 'StandingBy')
    await until('the watch has reported it', () => messages.length >= 2)
    stop()
    expect(messages.filter((message) => message !== undefined)).toEqual([])
  })

  it('shows its reason after its record was written, and none once the reason has ended, whoever wrote it', async () => {
    const backend = memoryBackend({
      clock: systemClock,
      script: () => ({ startsAfterMs: Infinity, pendingReason: 'no node has room' }),
    })
    const listeners: BackendListener[] = []
    const watch = backend.watch.bind(backend)
    backend.watch = (listener) => (listeners.push(listener), watch(listener))
    const fleet = await openFleet(api, namespace, { backend, logger: silentLogger })
    await kubectlWith(buildManifest(namespace, 'castle', { standingBy: 1, max: 1 }), 'apply', '-f', '-')
    const shown = (field: string) =>
      k('get', 'gs', '-l', `${defaultApiGroup}/build=castle`, '-o', `jsonpath={.items[*].status.${field}}`)
    await until('it is shown', async () => (await shown('message')) === 'no node has room')
    const [server] = (await fleet.servers.list()).filter(({ metadata }) => metadata.name.startsWith('castle'))
    const { name = '' } = server?.metadata ?? {}
    await fleet.servers.update({ namespace, name }, { labels: { map: 'dust' } })
    await until('the label is in the record', async () => (await shown('labels.map')) === 'dust')
    expect(await shown('message')).toBe('no node has room')
    const noReason = async () => {
      const found = (await backend.list()).find(({ ref }) => ref.name === name)
      if (!found) return
      const { reason: _, ...instance } = found
      for (const listener of listeners) listener.changed(instance)
    }
    await noReason()
    await until('nothing is shown', async () => (await shown('message')) === '')
    expect([await shown('state'), await shown('labels.map')]).toEqual(['Pending', 'dust'])
    // As an earlier leader has left it.
    await api.request({
      ...{ what: 'patch the status', method: 'PATCH', contentType: 'application/merge-patch+json' },
      path: `/apis/${defaultApiGroup}/v1alpha1/namespaces/${namespace}/gameservers/${name}/status`,
      body: { status: { message: 'no node had room' } },
    })
    await until('the old one is seen and removed', async () => {
      await noReason()
      return (await shown('message')) === ''
    })
  })
})
