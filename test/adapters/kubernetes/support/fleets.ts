/** Fleets with records in the cluster and game servers in memory, for tests of what kubectl shows and does. */
import { memoryBackend, type MemoryBackendOptions } from 'gamekeeper/memory'
import { onTestFinished } from 'vitest'
import type { KubernetesApi } from '../../../../adapters/kubernetes/client/api.js'
import { type KubernetesStore, openKubernetesStore } from '../../../../adapters/kubernetes/store/store.js'
import { systemClock } from '../../../../src/contracts/clock.js'
import type { Fleet } from '../../../../src/contracts/fleet.js'
import { silentLogger } from '../../../../src/contracts/logger.js'
import type { FleetOptions } from '../../../../src/contracts/options.js'
import { createFleet } from '../../../../src/fleet/create-fleet.js'
import { defaultApiGroup } from '../../../../src/rules/model/wire.js'

export function openStore(api: KubernetesApi, namespace: string) {
  const [clock, logger, group] = [systemClock, silentLogger, defaultApiGroup]
  return openKubernetesStore({ api, clock, logger, group, systemNamespace: namespace, namespaces: [namespace] })
}

const stores = new WeakMap<Fleet, KubernetesStore>()

/** The whole host: its store would go on restoring what it knows. */
export async function closeHost(fleet: Fleet): Promise<void> {
  await fleet.close()
  await stores.get(fleet)?.close()
}

/** Closed with its store when the test ends. */
export async function openFleet(
  api: KubernetesApi,
  namespace: string,
  options: Partial<FleetOptions> & { readonly memory?: MemoryBackendOptions } = {},
): Promise<Fleet> {
  const { memory, ...rest } = options
  const store = await openStore(api, namespace)
  const fleet = await createFleet({ backend: memoryBackend({ clock: systemClock, ...memory }), store, ...rest })
  stores.set(fleet, store)
  onTestFinished(async () => {
    await fleet.close()
    await store.close()
  })
  return fleet
}

/** A manifest as a user would write it. */
export function buildManifest(
  namespace: string,
  name: string,
  spec: { readonly standingBy: number; readonly max: number; readonly [field: string]: unknown },
): string {
  const template = { spec: { containers: [{ name: 'game', image: 'arena:1' }] } }
  return JSON.stringify({
    apiVersion: `${defaultApiGroup}/v1alpha1`,
    kind: 'GameServerBuild',
    metadata: { name, namespace },
    spec: { buildID: `id-of-${name}`, portsToExpose: [7777], template, ...spec },
  })
}

/** Rows of `kubectl get` by column. Cells must not contain blanks. */
export function tableOf(text: string): readonly Readonly<Record<string, string>>[] {
  const [head = '', ...rows] = text.trimEnd().split('\n')
  const columns = [...head.matchAll(/\S+\s*/g)].map(({ 0: title, index }) => ({ title: title.trim(), index }))
  return rows.map((row) =>
    Object.fromEntries(
      columns.map(({ title, index }, i) => [title, row.slice(index, columns[i + 1]?.index ?? row.length).trim()]),
    ),
  )
}
