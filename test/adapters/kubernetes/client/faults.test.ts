import { randomUUID } from 'node:crypto'
import { memoryBackend } from 'gamekeeper/memory'
import { expect, it, onTestFinished } from 'vitest'
import { KubernetesApi } from '../../../../adapters/kubernetes/client/api.js'
import { defaultKubeConfig } from '../../../../adapters/kubernetes/client/kube-config.js'
import { leaseElector } from '../../../../adapters/kubernetes/leader-election/elector.js'
import { openKubernetesStore } from '../../../../adapters/kubernetes/store/store.js'
import { systemClock } from '../../../../src/contracts/clock.js'
import { FleetError } from '../../../../src/contracts/errors.js'
import type { Fleet } from '../../../../src/contracts/fleet.js'
import { silentLogger } from '../../../../src/contracts/logger.js'
import type { Allocation } from '../../../../src/contracts/sessions.js'
import { createFleet } from '../../../../src/fleet/create-fleet.js'
import { defaultApiGroup } from '../../../../src/rules/model/wire.js'
import { StopWaiting, until } from '../../../e2e/until.js'
import { type ApiProxy, apiProxy } from '../support/api-proxy.js'
import { kubectlWith } from '../support/cluster.js'
import { describeOnCluster } from '../support/describe-on-cluster.js'
import { buildManifest, openStore } from '../support/fleets.js'
import { ownNamespaces } from '../support/own-namespace.js'

const leaseMs = 15_000
const servers = 60

describeOnCluster('hosts that lose the API server or each other during allocations', () => {
  const { api, make } = ownNamespaces()

  /** Hosts of one fleet, each behind its own proxy. The game servers run in memory and outlive the hosts. */
  async function scene() {
    const namespace = await make()
    const [clock, logger] = [systemClock, silentLogger]
    const backend = memoryBackend({ clock })
    const endings: string[] = []

    async function host(identity: string): Promise<{ readonly fleet: Fleet; readonly proxy: ApiProxy }> {
      const proxy = await apiProxy(defaultKubeConfig())
      const limits = { requestsPerSecond: 1_000, connections: 32, callTimeoutMs: 10_000 }
      const own = new KubernetesApi({ config: proxy.config, clock, ...limits })
      const place = { systemNamespace: namespace, namespaces: [namespace] }
      const store = await openKubernetesStore({ api: own, clock, logger, group: defaultApiGroup, ...place })
      const elector = leaseElector({ api: own, clock, logger, namespace, name: 'fleet', identity, leaseMs })
      const fleet = await createFleet({ backend, store, elector, limits: { backoffMaxMs: 2_000 } })
      fleet.on('ServerEnding', ({ message }) => endings.push(message))
      onTestFinished(async () => {
        await fleet.close()
        await store.close()
        own.close()
        await proxy.close()
      })
      return { fleet, proxy }
    }

    const build = { standingBy: servers, max: servers }
    const start = async (fleet: Fleet) => {
      await kubectlWith(buildManifest(namespace, 'arena', build), 'apply', '-f', '-')
      await until('all stand by', async () => {
        const { status } = await fleet.builds.get({ namespace, name: 'arena' })
        return status.currentStandingBy === servers
      })
    }
    return { namespace, host, start, endings }
  }

  /** Retries on all hosts until one responds, as a matchmaker does. */
  function persist(fleets: readonly Fleet[], sessionID: string): Promise<Allocation> {
    return until(`session ${sessionID} has a server`, async () => {
      for (const fleet of fleets) {
        try {
          return await fleet.allocate({ buildID: 'id-of-arena', sessionID })
        } catch (error) {
          if (!FleetError.is(error) || !error.retryable) throw new StopWaiting('not retryable', { cause: error })
        }
      }
      return undefined
    })
  }

  async function allocateThrough(fleets: readonly Fleet[], trouble: () => Promise<void>) {
    const sessions = Array.from({ length: servers - 5 }, () => randomUUID())
    const answers = new Map<string, Allocation>()
    let troubled: Promise<void> | undefined
    const left = [...sessions]
    const caller = async () => {
      for (let session = left.pop(); session !== undefined; session = left.pop()) {
        answers.set(session, await persist(fleets, session))
        // After a third of the allocations.
        if (answers.size >= sessions.length / 3) troubled ??= trouble()
      }
    }
    await Promise.all(Array.from({ length: 8 }, caller))
    await troubled
    return answers
  }

  async function check(namespace: string, fleets: readonly Fleet[], answers: ReadonlyMap<string, Allocation>) {
    expect(answers.size).toBe(servers - 5)
    const places = [...answers.values()].map(({ IPV4Address, Ports }) => `${IPV4Address} ${Ports}`)
    expect(new Set(places).size).toBe(answers.size)
    for (const [session, answer] of answers) expect(await persist(fleets, session)).toEqual(answer)
    const store = await openStore(api, namespace)
    const records = (await store.servers.list()).map(({ record }) => record)
    await store.close()
    const active = records.filter(({ state }) => state === 'Active')
    expect(
      active.map(({ sessions: [session] }) => session?.id).toSorted((a = '', b = '') => a.localeCompare(b)),
    ).toEqual([...answers.keys()].toSorted((a, b) => a.localeCompare(b)))
  }

  it(
    'allocate every session exactly once when the API server hangs for longer than the lease',
    { timeout: 300_000 },
    async () => {
      const { namespace, host, start, endings } = await scene()
      const { fleet, proxy } = await host('host-1')
      await start(fleet)
      const answers = await allocateThrough([fleet], async () => {
        const changes: boolean[] = []
        fleet.on('LeadershipChanged', ({ leads }) => changes.push(leads))
        proxy.set('stall')
        await until('the host no longer leads', () => changes.includes(false))
        proxy.set('pass')
      })
      await check(namespace, [fleet], answers)
      expect(endings).toEqual([])
    },
  )

  it('continue under a new leader when the leader is disconnected', { timeout: 300_000 }, async () => {
    const { namespace, host, start, endings } = await scene()
    const first = await host('host-1')
    await start(first.fleet)
    const second = await host('host-2')
    const fleets = [first.fleet, second.fleet]
    const answers = await allocateThrough(fleets, async () => {
      first.proxy.set('refuse')
      await until('the second leads', () => second.fleet.builds.list().then(() => true))
      first.proxy.set('pass')
    })
    await check(namespace, fleets, answers)
    expect(endings).toEqual([])
  })
})
