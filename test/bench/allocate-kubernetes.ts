/**
 * Benchmarks `fleet.allocate` on the custom resource store against a bare conditional status write of the same size, from the
 * same process and with the same number of connections. The games run in memory, so only the store is measured. Skipped if
 * there is no cluster.
 */
import { kubernetesBackend } from 'gamekeeper/kubernetes'
import { KubernetesApi } from '../../adapters/kubernetes/client/api.js'
import { fleetResources } from '../../adapters/kubernetes/store/objects/custom-resources.js'
import { defaultKubeConfig } from '../../adapters/kubernetes/client/kube-config.js'
import { type KubeObject, pathOf, revisionOf, typeMetaOf } from '../../adapters/kubernetes/client/kube-objects.js'
import { systemClock } from '../../src/contracts/clock.js'
import { isObject } from '../../src/rules/validation/problem.js'
import { makeNamespace, removeNamespace } from '../adapters/kubernetes/support/cluster.js'
import { type Cost, costOf, perSecond, typicalWallUs } from './cost.js'
import { allocateAll, newRequests, openFleet } from './fleet.js'
import { onCluster } from './kubernetes.js'
import { type Bench, ratioAtLeast, ratioAtMost, type Row } from './row.js'
import { startSubject } from './subject.js'

const connections = 128
const { servers: resource } = fleetResources()

interface OpenOptions {
  readonly fleetIn: string
  readonly bareIn: string
  /** Must be at least the number of allocations, since no server is reused. */
  readonly servers: number
}

export async function open({ fleetIn, bareIn, servers }: OpenOptions) {
  const { defaultStore } = kubernetesBackend({
    ...{ namespaces: [fleetIn], systemNamespace: fleetIn },
    ...{ connections, requestsPerSecond: 100_000 },
  })
  const { fleet } = await openFleet({
    ...{ servers, namespace: fleetIn },
    wrap: (backend) => ({ ...backend, defaultStore }),
  })
  const api = newApi()
  const model = await whenSaved(api, fleetIn)
  const session = { sessionID: '9a6b2f0e-0000-4000-8000-000000000000', initialPlayers: ['amie'], state: 'Active' }
  const status = { ...Object(model['status']), ...session, reachedActiveOn: new Date(0).toISOString() }
  const revisions = new Map<string, string>()

  /** Writes as an allocation does: conditionally, and with a change in each write. */
  async function write(name: string): Promise<void> {
    const resourceVersion = revisions.get(name)
    const body = {
      ...typeMetaOf(resource),
      metadata: { name, namespace: bareIn, resourceVersion },
      status: { ...status, writtenUpon: resourceVersion },
    }
    const path = pathOf(resource, { namespace: bareIn, name, subresource: 'status' })
    revisions.set(name, revisionOf(await api.object({ what: 'write', method: 'PUT', path, body })))
  }

  async function create(name: string): Promise<void> {
    const body = { ...typeMetaOf(resource), metadata: { name, namespace: bareIn }, spec: model['spec'] }
    const path = pathOf(resource, { namespace: bareIn })
    revisions.set(name, revisionOf(await api.object({ what: 'create', method: 'POST', path, body })))
  }

  return {
    /** Alternates between allocations and bare writes, so that both experience the same cluster load. */
    async oneCaller(calls: number): Promise<{ readonly allocateUs: number[]; readonly writeUs: number[] }> {
      const [allocateUs, writeUs]: [number[], number[]] = [[], []]
      if (!revisions.has('bare-0')) await create('bare-0')
      for (const request of newRequests(calls)) {
        const startedAt = performance.now()
        await fleet.allocate(request)
        const between = performance.now()
        await write('bare-0')
        writeUs.push((performance.now() - between) * 1_000)
        allocateUs.push((between - startedAt) * 1_000)
      }
      return { allocateUs, writeUs }
    },

    manyCallers(calls: number, callers: number): Promise<Cost> {
      const requests = newRequests(calls)
      return costOf(calls, async () => {
        await allocateAll(fleet, requests, callers)
      })
    },

    async manyWrites(calls: number, callers: number): Promise<Cost> {
      const names = Array.from({ length: callers }, (_, n) => `bare-${n}`)
      await Promise.all(names.filter((name) => !revisions.has(name)).map(create))
      let left = calls
      return costOf(calls, async () => {
        const caller = async (name: string) => {
          while (left-- > 0) await write(name)
        }
        await Promise.all(names.map(caller))
      })
    },

    async close(): Promise<void> {
      await fleet.close()
      api.close()
    },
  }
}

/** Waits until all servers are stored as StandingBy. Resolves to one of them. */
async function whenSaved(api: KubernetesApi, namespace: string): Promise<KubeObject> {
  for (;;) {
    const { items } = await api.list({ what: 'list', method: 'GET', path: pathOf(resource, { namespace }) })
    const [model] = items
    if (model && items.every(({ status }) => isObject(status) && status['state'] === 'StandingBy')) return model
    await api.pause(200)
  }
}

const sizes = [32, 128] as const
const names = ['allocate-kubernetes', ...sizes.map((callers) => `allocate-kubernetes-${callers}`)]

export const allocateKubernetes: Bench = {
  names,

  run: (quick) =>
    onCluster(names, async (api) => {
      const [fleetIn, bareIn] = [await makeNamespace(api), await makeNamespace(api)]
      try {
        return await measure(quick, fleetIn, bareIn)
      } finally {
        await Promise.all([fleetIn, bareIn].map((name) => removeNamespace(api, name)))
      }
    }),
}

async function measure(quick: boolean, fleetIn: string, bareIn: string): Promise<readonly Row[]> {
  const [warmUps, calls] = quick ? [1, 10] : [10, 100]
  // The first round is a warm-up.
  const rounds = quick ? 1 : 3
  const ofRound = (callers: number) => (quick ? callers : 2 * callers)
  const servers = warmUps + calls + sizes.reduce((sum, callers) => sum + rounds * ofRound(callers), 0)
  const subject = await startSubject(import.meta.url, open, { fleetIn, bareIn, servers })
  try {
    await subject.oneCaller(warmUps)
    const { allocateUs, writeUs } = await subject.oneCaller(calls)
    const rows = [
      ratioAtMost(1.5, {
        name: 'allocate-kubernetes',
        value: middle(allocateUs),
        unit: 'µs/call',
        baseline: middle(writeUs),
        note: 'one caller, p50; baseline: a conditional status write',
      }),
    ]
    for (const callers of sizes) {
      const [allocations, writes]: [Cost[], Cost[]] = [[], []]
      for (let round = 0; round < rounds; round++) {
        const count = ofRound(callers)
        const [allocated, written] = [
          await subject.manyCallers(count, callers),
          await subject.manyWrites(count, callers),
        ]
        if (round === 0 && rounds > 1) continue
        allocations.push(allocated)
        writes.push(written)
      }
      rows.push(
        ratioAtLeast(0.7, {
          name: `allocate-kubernetes-${callers}`,
          value: perSecond(typicalWallUs(allocations)),
          unit: 'calls/s',
          baseline: perSecond(typicalWallUs(writes)),
          note: `${callers} callers; baseline: as many concurrent writes`,
        }),
      )
    }
    await subject.close()
    return rows
  } finally {
    await subject.stop()
  }
}

function middle(figures: readonly number[]): number {
  return figures.toSorted((a, b) => a - b)[Math.floor(figures.length / 2)] ?? Number.NaN
}

function newApi(): KubernetesApi {
  const limits = { connections, requestsPerSecond: 100_000, callTimeoutMs: 20_000 }
  return new KubernetesApi({ config: defaultKubeConfig(), clock: systemClock, ...limits })
}
