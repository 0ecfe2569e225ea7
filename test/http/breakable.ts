/** A store and a backend of which a test may decide whether they answer. */
import type { Backend, Store } from '../../src/index.js'

/** Called before each answer: resolves when it may be given, rejects with why there is none, or leaves it open. */
export type Ask = () => Promise<void>

/** The store, with reads of single builds that may fail. */
export function breakableStore({ shared, builds, servers, details, close }: Store, ask: Ask): Store {
  return {
    shared,
    builds: {
      get: async (ref, options) => {
        await ask()
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

/** The backend, with lists and creations that may fail. */
export function breakableBackend(backend: Backend, ask: Ask): Backend {
  const { name, capabilities, defaultStore } = backend
  return {
    name,
    capabilities,
    defaultStore,
    create: async (spec, options) => {
      await ask()
      return backend.create(spec, options)
    },
    destroy: (ref, uid, options) => backend.destroy(ref, uid, options),
    list: async (options) => {
      await ask()
      return backend.list(options)
    },
    watch: (listener) => backend.watch(listener),
    close: () => backend.close(),
  }
}
