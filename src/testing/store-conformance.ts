/**
 * What every store must do, as cases for any test runner. Each case opens a store of its own and closes it.
 *
 *     for (const { name, run } of storeConformance({ open: () => myStore() })) test(name, run)
 */
import type { Build, Detail, Server } from '../rules/model/resources.js'
import type { Store } from '../contracts/store.js'
import type { ConformanceCase } from './conformance.js'
import { completeBuild, completeDetail, completeServer, minimalBuild, minimalDetail, minimalServer } from './records.js'
import { besideScenarios } from './store-cases/beside.js'
import { collectionScenarios } from './store-cases/collection.js'
import { concurrencyScenarios } from './store-cases/concurrency.js'
import { lastingScenarios } from './store-cases/lasting.js'
import type { Kind, Scenario } from './store-cases/scenario.js'
import { separationScenarios } from './store-cases/separation.js'

export interface StoreConformanceOptions {
  /** Opens a store without records. */
  open(): Promise<Store>
  /** Opens again what a store that is closed had open. Without it, nothing is asked about records that last. */
  reopen?(closed: Store): Promise<Store>
  /** Opens the records of an open store once more, as another host would. Without it, nothing is asked about shared stores. */
  beside?(open: Store): Promise<Store>
  /** Two namespaces that the store can keep records in. Default: `default` and `other`. */
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
  const scenarios: readonly Scenario[] = [
    ...collectionScenarios(builds, namespace),
    ...collectionScenarios(servers, namespace),
    ...collectionScenarios(details, namespace),
    ...separationScenarios(namespaces),
    ...concurrencyScenarios(namespace),
  ]
  const open = () => options.open()
  const { beside } = options
  const shared = (beside ? besideScenarios(namespace) : []).map(({ name, run }) => ({
    name: `shared: ${name}`,
    run: () =>
      withStore(open, async (store) => {
        if (!beside) return
        await withStore(
          () => beside(store),
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
  const lasting = lastingScenarios(namespace).map(({ name, before, after }) => ({
    name,
    run: () =>
      withStore(open, async (store) => {
        const known = await before(store)
        await store.close()
        await withStore(
          () => reopen(store),
          (again) => after(again, known),
        )
      }),
  }))
  return [...cases, ...shared, ...lasting]
}

async function withStore(open: () => Promise<Store>, run: (store: Store) => Promise<void>): Promise<void> {
  const store = await open()
  try {
    await run(store)
  } finally {
    await store.close()
  }
}
