/** A store and a backend that a test can make fail or hang. */
import type { Backend, Store } from '../../src/index.js'

/** Runs before each call: resolves to let it pass, rejects to make it fail, or stays pending to make it hang. */
export type Gate = () => Promise<void>

/** The store; reads of single builds may fail. */
export function breakableStore({ shared, builds, servers, details, close }: Store, gate: Gate): Store {
  return {
    shared,
    builds: {
      get: async (ref, options) => {
        await gate()
        return builds.get(ref, options)
      },
      list: (options) => builds.list(options),
      create: (record, options) => builds.create(record, options),
      update: (record, revision, options) => builds.update(record, revision, options),
      delete: (ref, revision, options) => builds.delete(ref, revision, options),
    },
    servers,
    details,
    close,
  }
}

/** The backend; lists and creates may fail. */
export function breakableBackend(backend: Backend, gate: Gate): Backend {
  const { name, capabilities, defaultStore } = backend
  return {
    name,
    capabilities,
    defaultStore,
    create: async (spec, options) => {
      await gate()
      return backend.create(spec, options)
    },
    destroy: (ref, uid, options) => backend.destroy(ref, uid, options),
    list: async (options) => {
      await gate()
      return backend.list(options)
    },
    watch: (listener) => backend.watch(listener),
    close: () => backend.close(),
  }
}
