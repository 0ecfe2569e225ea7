/**
 * Benchmarks the start-up time of a large fleet on hollow nodes, from creating the build until all servers are standing by. Pods
 * on hollow nodes run nothing, and a simulated game reports as soon as its pod has a node. The baseline creates as many bare pods
 * and waits until each has a node. Skipped if there is no cluster or there are too few hollow nodes.
 */
import type { KubernetesApi } from '../../adapters/kubernetes/client/api.js'
import { pathOf, pods as podType } from '../../adapters/kubernetes/client/kube-objects.js'
import { watchCollection } from '../../adapters/kubernetes/client/watch.js'
import { systemClock } from '../../src/contracts/clock.js'
import { silentLogger } from '../../src/contracts/logger.js'
import { withTimeout } from '../../src/util/with-timeout.js'
import { makeNamespace, removeNamespace } from '../adapters/kubernetes/support/cluster.js'
import {
  freeHollowPods,
  hollowBuild,
  HollowGames,
  hollowPod,
  removePods,
  standingBy,
} from '../adapters/kubernetes/support/scale-fleet.js'
import { onCluster } from './kubernetes.js'
import { atLeast, type Bench } from './row.js'
import { startSubject } from './subject.js'

const size = 400
const names = [`kubernetes-start-${size}`]
/** As many concurrent requests as a fleet has connections. */
const callers = 64
const capacityTimeoutMs = 60_000
const placementTimeoutMs = 120_000

export async function open({ namespace, servers }: { readonly namespace: string; readonly servers: number }) {
  const games = new HollowGames()
  const fleet = await games.openFleet({ namespaces: [namespace], systemNamespace: namespace, portRange: '22000-25000' })
  return {
    async seconds(): Promise<number> {
      const since = performance.now()
      const isUp = standingBy(fleet, servers)
      await fleet.builds.create(hollowBuild(namespace, servers))
      await isUp
      return (performance.now() - since) / 1_000
    },

    async close(): Promise<void> {
      games.stop()
      await fleet.close()
    },
  }
}

export const kubernetesStart: Bench = {
  names,

  run: (quick) =>
    onCluster(names, async (api) => {
      const servers = quick ? 20 : size
      if (!(await hasCapacity(api, servers))) {
        console.error(`left out ${names.join(', ')}: hollow nodes have no capacity for ${servers} pods`)
        return []
      }
      const ours = await inNamespace(api, (namespace) => fleetSeconds(namespace, servers))
      if (!(await hasCapacity(api, servers))) throw new Error('the pods of the fleet were not deleted in time')
      const bare = await inNamespace(api, (namespace) => bareSeconds(api, namespace, servers))
      return [
        atLeast(50, {
          name: `kubernetes-start-${size}`,
          value: servers / ours,
          unit: 'servers/s',
          baseline: servers / bare,
          note: `${servers} in ${ours.toFixed(1)} s; baseline: bare pods until each has a node`,
        }),
      ]
    }),
}

/** Waits until the nodes have enough capacity, since earlier pods may still be terminating. */
export async function hasCapacity(api: KubernetesApi, servers: number): Promise<boolean> {
  const until = performance.now() + capacityTimeoutMs
  while (performance.now() < until) {
    const free = await freeHollowPods()
    if (free >= servers) return true
    if (free === 0) return false
    await api.pause(1_000)
  }
  return false
}

async function inNamespace(api: KubernetesApi, work: (namespace: string) => Promise<number>): Promise<number> {
  const namespace = await makeNamespace(api)
  try {
    return await work(namespace)
  } finally {
    await removePods(api, namespace)
    await removeNamespace(api, namespace)
  }
}

async function fleetSeconds(namespace: string, servers: number): Promise<number> {
  const subject = await startSubject(import.meta.url, open, { namespace, servers })
  try {
    const seconds = await subject.seconds()
    await subject.close()
    return seconds
  } finally {
    await subject.stop()
  }
}

async function bareSeconds(api: KubernetesApi, namespace: string, servers: number): Promise<number> {
  const path = pathOf(podType, { namespace })
  const placed = new Set<string>()
  let onPlaced = () => {}
  const all = new Promise<void>((resolve) => (onPlaced = resolve))
  const since = performance.now()
  const stop = watchCollection(
    { api, clock: systemClock, logger: silentLogger, what: 'pods', path },
    {
      listed: () => {},
      changed({ metadata, spec }) {
        if (Object(spec).nodeName === undefined) return
        placed.add(metadata.name)
        if (placed.size === servers) onPlaced()
      },
      deleted: () => {},
    },
  )
  let next = 0
  const caller = async () => {
    for (let n = next++; n < servers; n = next++) {
      const body = hollowPod({ name: `bare-${n}`, namespace }, 22_000 + n)
      await api.object({ what: `create pod bare-${n}`, method: 'POST', path, body })
    }
  }
  try {
    await Promise.all(Array.from({ length: callers }, caller))
    await withTimeout(systemClock, placementTimeoutMs, `the placement of ${servers} bare pods`, () => all)
    return (performance.now() - since) / 1_000
  } finally {
    stop()
  }
}
