/**
 * The door between an engine and the outside. Once shut nothing goes through any more: what was under way ends where it
 * stands, and whoever leads next goes on from what is in the store.
 */
import type { Backend } from '../backend.js'
import type { FleetError } from '../errors.js'
import type { Ref } from '../rules/resources.js'
import type { Collection, Store } from '../store.js'

export interface Gate {
  readonly store: Store
  readonly backend: Backend
  /** Why it is shut, once it is. */
  readonly over: FleetError | undefined
  /** From now on every call is refused with this error. */
  shut(error: FleetError): void
}

export function gate(store: Store, backend: Backend): Gate {
  let over: FleetError | undefined

  function guarded<T extends Ref>(inner: Collection<T>): Collection<T> {
    return {
      get: (ref, options) => (over ? Promise.reject(over) : inner.get(ref, options)),
      list: (options) => (over ? Promise.reject(over) : inner.list(options)),
      create: (record, options) => (over ? Promise.reject(over) : inner.create(record, options)),
      update: (record, revision, options) => (over ? Promise.reject(over) : inner.update(record, revision, options)),
      delete: (ref, revision, options) => (over ? Promise.reject(over) : inner.delete(ref, revision, options)),
    }
  }

  return {
    store: {
      shared: store.shared,
      ...optionalParts(store, () => over),
      builds: guarded(store.builds),
      servers: guarded(store.servers),
      details: guarded(store.details),
      close: () => store.close(),
    },
    backend: {
      name: backend.name,
      capabilities: backend.capabilities,
      defaultStore: backend.defaultStore,
      create: (spec, options) => (over ? Promise.reject(over) : backend.create(spec, options)),
      destroy: (ref, uid, options) => (over ? Promise.reject(over) : backend.destroy(ref, uid, options)),
      list: (options) => (over ? Promise.reject(over) : backend.list(options)),
      watch: (listener) => backend.watch(listener),
      close: () => backend.close(),
      ...optionalCalls(backend, () => over),
    },
    get over() {
      return over
    },
    shut(error) {
      over ??= error
    },
  }
}

function optionalParts(store: Store, over: () => FleetError | undefined): Partial<Store> {
  const { watch, display } = store
  return {
    ...(watch && { watch: watch.bind(store) }),
    ...(display && {
      display: {
        build: (ref, status) => void (over() || display.build(ref, status)),
        event: (event) => void (over() || display.event(event)),
      },
    }),
  } satisfies Partial<Store>
}

/** What a backend may leave out stays left out. */
function optionalCalls(backend: Backend, over: () => FleetError | undefined): Partial<Backend> {
  const { check, prepare, protect } = backend
  return {
    ...(check && { check: check.bind(backend) }),
    ...(prepare && {
      prepare: async (build, options) => {
        const error = over()
        if (error) throw error
        await prepare.call(backend, build, options)
      },
    }),
    ...(protect && {
      protect: async (ref, uid, options) => {
        const error = over()
        if (error) throw error
        await protect.call(backend, ref, uid, options)
      },
    }),
  } satisfies Partial<Backend>
}
