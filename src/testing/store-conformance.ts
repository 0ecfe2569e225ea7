/**
 * The conformance suite for stores, as cases that any test runner can run. Each case opens and closes its own store.
 *
 *     for (const { name, run } of storeConformance({ open: () => myStore() })) test(name, run)
 */
import type { DemandRecord } from '../rules/demand/demand-day.js'
import type { Build, Detail, Server } from '../rules/model/resources.js'
import type { Store } from '../contracts/store.js'
import type { ConformanceCase } from './conformance.js'
import {
  completeBuild,
  completeDemand,
  completeDetail,
  completeServer,
  minimalBuild,
  minimalDemand,
  minimalDetail,
  minimalServer,
} from './records.js'
import {
  collectionScenarios,
  concurrencyScenarios,
  durabilityScenarios,
  isolationScenarios,
  type Kind,
  type Scenario,
  sharedScenarios,
} from './store-cases.js'

export interface StoreConformanceOptions {
  /** Opens an empty store. */
  open(): Promise<Store>
  /** Reopens a closed store with its records. If absent, durability is not tested. */
  reopen?(closed: Store): Promise<Store>
  /** Opens an open store a second time, as another host would. If absent, sharing is not tested. */
  openShared?(open: Store): Promise<Store>
  /** Two namespaces that the store supports. Default: `default` and `other`. */
  readonly namespaces?: readonly [string, string]
}

export function storeConformance(options: StoreConformanceOptions): readonly ConformanceCase[] {
  const { namespaces = ['default', 'other'] } = options
  const [namespace] = namespaces
  const builds: Kind<Build> = {
    name: 'builds',
    of: (store) => store.builds,
    complete: completeBuild,
    minimal: minimalBuild,
    changed: (build, n) => ({ ...build, crashes: n }),
  }
  const servers: Kind<Server> = {
    name: 'servers',
    of: (store) => store.servers,
    complete: completeServer,
    minimal: minimalServer,
    changed: (server, n) => ({ ...server, node: `node-${n}` }),
  }
  const details: Kind<Detail> = {
    name: 'details',
    of: (store) => store.details,
    complete: completeDetail,
    minimal: minimalDetail,
    changed: (detail, n) => ({ ...detail, players: [`player-${n}`] }),
  }
  const demand: Kind<DemandRecord> = {
    name: 'demand',
    of: (store) => store.demand,
    complete: completeDemand,
    minimal: minimalDemand,
    changed: (day, n) => ({ ...day, asked: [n] }),
  }
  const scenarios: readonly Scenario[] = [
    ...collectionScenarios(builds, namespace),
    ...collectionScenarios(servers, namespace),
    ...collectionScenarios(details, namespace),
    ...collectionScenarios(demand, namespace),
    ...isolationScenarios(namespaces),
    ...concurrencyScenarios(namespace),
  ]
  const open = () => options.open()
  const { openShared } = options
  const shared = (openShared ? sharedScenarios(namespace) : []).map(({ name, run }) => ({
    name: `shared: ${name}`,
    run: () =>
      withStore(open, async (store) => {
        if (!openShared) return
        await withStore(
          () => openShared(store),
          (other) => run(store, other),
        )
      }),
  }))
  const cases = scenarios.map(({ name, run }) => ({
    name,
    run: () => withStore(open, run),
  }))
  if (!options.reopen) return [...cases, ...shared]
  const reopen = options.reopen.bind(options)
  const durability = durabilityScenarios(namespace).map(({ name, before, after }) => ({
    name,
    run: () =>
      withStore(open, async (store) => {
        const result = await before(store)
        await store.close()
        await withStore(
          () => reopen(store),
          (again) => after(again, result),
        )
      }),
  }))
  return [...cases, ...shared, ...durability]
}

async function withStore(open: () => Promise<Store>, run: (store: Store) => Promise<void>): Promise<void> {
  const store = await open()
  try {
    await run(store)
  } finally {
    await store.close()
  }
}
