/**
 * `fleet.allocate` over the store of custom resources, beside a bare conditional write of a status of the same size, from the same
 * process over as many connections. Left out where KUBECONFIG names no cluster, or its definitions are not installed.
 */
import { randomBytes } from 'node:crypto'
import { kubernetesBackend } from 'gamekeeper/kubernetes'
import { KubernetesApi } from '../../adapters/kubernetes/api.js'
import { fleetResources, headOf } from '../../adapters/kubernetes/fleet-resources.js'
import { defaultKubeConfig } from '../../adapters/kubernetes/kube-config.js'
import { pathOf, revisionOf } from '../../adapters/kubernetes/kube-objects.js'
import { systemClock } from '../../src/clock.js'
import { messageOf } from '../../src/errors.js'
import { type Cost, costOf, perSecond, typical, typicalWallUs } from './cost.js'
import { allocateAll, newRequests, openFleet } from './fleet.js'
import { type Bench, ratioAtLeast, ratioAtMost, type Row } from './row.js'
import { startSubject } from './subject.js'

const connections = 128
const { servers: resource } = fleetResources()

export async function open({ fleetIn, bareIn, servers }: { fleetIn: string; bareIn: string; servers: number }) {
  const options = { namespaces: [fleetIn], home: fleetIn, connections, requestsPerSecond: 100_000 }
  const { defaultStore } = kubernetesBackend(options)
  const { fleet, refill } = await openFleet({
    servers,
    namespace: fleetIn,
    shown: (backend) => ({ ...backend, defaultStore }),
  })
  const api = newApi()
  const [model] = await api
    .list({ what: 'list', method: 'GET', path: pathOf(resource, { namespace: fleetIn }) })
    .then(({ items }) => items)
  const session = { sessionID: '9a6b2f0e-0000-4000-8000-000000000000', initialPlayers: ['amie'], state: 'Active' }
  const status = { ...Object(model?.['status']), ...session, reachedActiveOn: new Date(0).toISOString() }
  const revisions = new Map<string, string>()
  let writes = 0

  async function write(name: string): Promise<void> {
    const resourceVersion = revisions.get(name)
    if (resourceVersion === undefined) {
      const body = { ...headOf(resource), metadata: { name, namespace: bareIn }, spec: model?.['spec'] }
      const path = pathOf(resource, { namespace: bareIn })
      const created = await api.object({ what: 'create', method: 'POST', path, body })
      revisions.set(name, revisionOf(created))
      return write(name)
    }
    const body = {
      ...headOf(resource),
      metadata: { name, namespace: bareIn, resourceVersion },
      status: { ...status, writtenUpon: `${resourceVersion}-${writes++}` },
    }
    const path = pathOf(resource, { namespace: bareIn, name, subresource: 'status' })
    revisions.set(name, revisionOf(await api.object({ what: 'write', method: 'PUT', path, body })))
  }

  return {
    /** By turns, so that both meet the same cluster. */
    async oneCaller(calls: number): Promise<{ readonly allocateUs: number[]; readonly writeUs: number[] }> {
      const allocations: Awaited<ReturnType<typeof fleet.allocate>>[] = []
      const [allocateUs, writeUs]: [number[], number[]] = [[], []]
      await write('bare-0')
      for (const request of newRequests(calls)) {
        const startedAt = performance.now()
        allocations.push(await fleet.allocate(request))
        const between = performance.now()
        await write('bare-0')
        writeUs.push((performance.now() - between) * 1_000)
        allocateUs.push((between - startedAt) * 1_000)
      }
      await refill(allocations)
      return { allocateUs, writeUs }
    },

    async manyCallers(calls: number, callers: number): Promise<Cost> {
      const requests = newRequests(calls)
      let allocations: Awaited<ReturnType<typeof allocateAll>> = []
      const cost = await costOf(calls, async () => {
        allocations = await allocateAll(fleet, requests, callers)
      })
      await refill(allocations)
      return cost
    },

    async manyWrites(calls: number, callers: number): Promise<Cost> {
      const names = Array.from({ length: callers }, (_, n) => `bare-${n}`)
      await Promise.all(names.filter((name) => !revisions.has(name)).map(write))
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

const manyCallers = [32, 128] as const
const names = ['allocate-kubernetes', ...manyCallers.map((callers) => `allocate-kubernetes-${callers}`)]

export const allocateKubernetes: Bench = {
  names,

  async run(quick) {
    const [fleetIn = '', bareIn = ''] = Array.from({ length: 2 }, () => `bench-${randomBytes(4).toString('hex')}`)
    let api: KubernetesApi | undefined
    try {
      if (process.env['KUBECONFIG'] === undefined) throw new Error('KUBECONFIG is not set')
      api = newApi()
      await api.list({ what: 'look for the definitions', method: 'GET', path: pathOf(resource), query: { limit: 1 } })
    } catch (error) {
      api?.close()
      console.error(`left out ${names.join(', ')}: no Kubernetes cluster answers (${messageOf(error)})`)
      return []
    }
    try {
      for (const name of [fleetIn, bareIn]) {
        await api.request({ what: 'make a namespace', method: 'POST', path, body: { metadata: { name } } })
      }
      return await measure(quick, fleetIn, bareIn)
    } finally {
      for (const name of [fleetIn, bareIn]) {
        await api.request({ what: 'remove a namespace', method: 'DELETE', path: `${path}/${name}` })
      }
      api.close()
    }
  },
}

const path = '/api/v1/namespaces'

async function measure(quick: boolean, fleetIn: string, bareIn: string): Promise<readonly Row[]> {
  const calls = quick ? 32 : 600
  const rounds = quick ? 1 : 2
  const subject = await startSubject(import.meta.url, open, { fleetIn, bareIn, servers: calls })
  try {
    await subject.oneCaller(quick ? 5 : 100)
    const { allocateUs, writeUs } = await subject.oneCaller(quick ? 10 : 300)
    const rows = [
      ratioAtMost(1.5, {
        name: 'allocate-kubernetes',
        value: typical(allocateUs),
        unit: 'µs/call',
        baseline: typical(writeUs),
        note: 'one caller; baseline: a conditional write of a status',
      }),
    ]
    for (const callers of manyCallers) {
      const [allocations, writes]: [Cost[], Cost[]] = [[], []]
      for (let round = 0; round < 1 + rounds; round++) {
        const [allocated, written] = [
          await subject.manyCallers(calls, callers),
          await subject.manyWrites(calls, callers),
        ]
        // The first round is for the compiler.
        if (round === 0 && !quick) continue
        allocations.push(allocated)
        writes.push(written)
      }
      rows.push(
        ratioAtLeast(callers === 128 ? 0.7 : 0, {
          name: `allocate-kubernetes-${callers}`,
          value: perSecond(typicalWallUs(allocations)),
          unit: 'calls/s',
          baseline: perSecond(typicalWallUs(writes)),
          note: `${callers} callers; baseline: as many that write`,
        }),
      )
    }
    await subject.close()
    return rows
  } finally {
    await subject.stop()
  }
}

function newApi(): KubernetesApi {
  const limits = { connections, requestsPerSecond: 100_000, callMs: 20_000 }
  return new KubernetesApi({ config: defaultKubeConfig(), clock: systemClock, ...limits })
}
