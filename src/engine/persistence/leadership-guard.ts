/**
 * The door between an engine and the outside. Once shut nothing goes through any more: what was under way ends where it
 * stands, and whoever leads next goes on from what is in the store.
 */
import type { Backend } from '../../contracts/backend.js'
import type { FleetError } from '../../contracts/errors.js'
import {
  type BackendOperation,
  callOutcome,
  type Observers,
  type StoreCollection,
  type StoreOperation,
} from '../../contracts/observer.js'
import type { Ref } from '../../rules/model/resources.js'
import type { Collection, Store } from '../../contracts/store.js'

export interface LeadershipGuard {
  readonly store: Store
  readonly backend: Backend
  /** Why it is shut, once it is. */
  readonly closedWith: FleetError | undefined
  /** From now on every call is refused with this error. */
  close(error: FleetError): void
}

export function leadershipGuard(store: Store, backend: Backend, observers: Observers): LeadershipGuard {
  let closedWith: FleetError | undefined

  function guarded<T extends Ref>(name: StoreCollection, inner: Collection<T>): Collection<T> {
    const ask = <R>(operation: StoreOperation, call: () => Promise<R>): Promise<R> => {
      if (closedWith) return Promise.reject(closedWith)
      if (observers.idle) return call()
      return observers.timedCall(call, (observer, outcome, ms) =>
        observer.storeCall?.(name, operation, callOutcome(outcome), ms),
      )
    }
    return {
      get: (ref, options) => ask('get', () => inner.get(ref, options)),
      list: (options) => ask('list', () => inner.list(options)),
      create: (record, options) => ask('create', () => inner.create(record, options)),
      // What an allocation waits for: not even a closure is made for it.
      update: (record, revision, options) =>
        closedWith === undefined && observers.idle
          ? inner.update(record, revision, options)
          : ask('update', () => inner.update(record, revision, options)),
      delete: (ref, revision, options) => ask('delete', () => inner.delete(ref, revision, options)),
    }
  }

  function ask<R>(operation: BackendOperation, call: () => Promise<R>): Promise<R> {
    if (closedWith) return Promise.reject(closedWith)
    if (observers.idle) return call()
    return observers.timedCall(call, (observer, outcome, ms) =>
      observer.backendCall?.(operation, outcome === 'ok' ? 'ok' : 'failed', ms),
    )
  }

  return {
    store: {
      shared: store.shared,
      ...optionalParts(store, () => closedWith),
      builds: guarded('builds', store.builds),
      servers: guarded('servers', store.servers),
      details: guarded('details', store.details),
      close: () => store.close(),
    },
    backend: {
      name: backend.name,
      capabilities: backend.capabilities,
      defaultStore: backend.defaultStore,
      create: (spec, options) => ask('create', () => backend.create(spec, options)),
      destroy: (ref, uid, options) => ask('destroy', () => backend.destroy(ref, uid, options)),
      list: (options) => ask('list', () => backend.list(options)),
      watch: (listener) => backend.watch(listener),
      close: () => backend.close(),
      ...optionalCalls(backend, ask),
    },
    get closedWith() {
      return closedWith
    },
    close(error) {
      closedWith ??= error
    },
  }
}

function optionalParts(store: Store, closedWith: () => FleetError | undefined): Partial<Store> {
  const { watch, display } = store
  return {
    ...(watch && { watch: watch.bind(store) }),
    ...(display && {
      display: {
        build: (ref, status) => void (closedWith() || display.build(ref, status)),
        event: (event) => void (closedWith() || display.event(event)),
      },
    }),
  } satisfies Partial<Store>
}

/** What a backend may leave out stays left out. */
function optionalCalls(
  backend: Backend,
  ask: <R>(operation: BackendOperation, call: () => Promise<R>) => Promise<R>,
): Partial<Backend> {
  const { check, prepare, protect, find } = backend
  return {
    ...(check && { check: check.bind(backend) }),
    ...(prepare && {
      prepare: (build, options) => ask('prepare', () => prepare.call(backend, build, options)),
    }),
    ...(protect && {
      protect: (ref, uid, options) => ask('protect', () => protect.call(backend, ref, uid, options)),
    }),
    ...(find && { find: (known, options) => ask('find', () => find.call(backend, known, options)) }),
  } satisfies Partial<Backend>
}
