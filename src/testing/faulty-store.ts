/** Wraps a Store to inject faults into its calls, for testing a fleet. */
import type { Ref } from '../rules/model/resources.js'
import type { Collection, Store } from '../contracts/store.js'
import { type FaultOptions, withFaults } from './faults.js'

/** Fault plans see method names with the collection as prefix, such as `servers.update` or `builds.list`. */
export function faultyStore(store: Store, faults: FaultOptions): Store {
  return {
    builds: faultyCollection('builds', store.builds, faults),
    servers: faultyCollection('servers', store.servers, faults),
    shared: store.shared,
    ...(store.isNew !== undefined && { isNew: store.isNew }),
    ...(store.watch && { watch: store.watch.bind(store) }),
    ...(store.display && { display: store.display }),
    details: faultyCollection('details', store.details, faults),
    ...(store.backup && { backup: store.backup.bind(store) }),
    get damage() {
      return store.damage
    },
    ...(store.acceptDamage && { acceptDamage: store.acceptDamage.bind(store) }),
    ...(store.check && { check: store.check.bind(store) }),
    close: () => store.close(),
  }
}

function faultyCollection<T extends Ref>(name: string, inner: Collection<T>, faults: FaultOptions): Collection<T> {
  return {
    get: (ref, options) =>
      withFaults(faults, { method: `${name}.get`, ref }, options?.signal, () => inner.get(ref, options)),
    list: (options) => withFaults(faults, { method: `${name}.list` }, options?.signal, () => inner.list(options)),
    create: (record, options) =>
      withFaults(faults, { method: `${name}.create`, ref: record }, options?.signal, () =>
        inner.create(record, options),
      ),
    update: (record, revision, options) =>
      withFaults(faults, { method: `${name}.update`, ref: record }, options?.signal, () =>
        inner.update(record, revision, options),
      ),
    delete: (ref, revision, options) =>
      withFaults(faults, { method: `${name}.delete`, ref }, options?.signal, () =>
        inner.delete(ref, revision, options),
      ),
  }
}
