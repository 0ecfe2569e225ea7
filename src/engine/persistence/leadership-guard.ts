/**
 * Wraps the store and the backend for one leadership term. After `close` every call is rejected, so that a deposed host
 * cannot act. The next leader continues from what is in the store.
 *
 * A call to the store that has not returned after `limits.callTimeoutMs` is rejected. Calls to the backend get their limits where they are
 * made, because some of them include a grace period.
 */
import type { Backend } from '../../contracts/backend.js'
import type { FleetError } from '../../contracts/errors.js'
import {
  type BackendOperation,
  callOutcome,
  type StoreCollection,
  type StoreOperation,
} from '../../contracts/observer.js'
import type { ResolvedOptions } from '../../contracts/options.js'
import type { Collection, Store } from '../../contracts/store.js'
import type { Ref } from '../../rules/model/resources.js'
import type { Observers } from '../../util/observers.js'
import { CallLimit } from '../../util/with-timeout.js'

export class LeadershipGuard {
  readonly store: Store
  readonly backend: Backend
  readonly #observers: Observers
  readonly #limit: CallLimit
  #closedWith: FleetError | undefined

  constructor(store: Store, backend: Backend, { clock, limits }: ResolvedOptions, observers: Observers) {
    this.#observers = observers
    this.#limit = new CallLimit(clock, limits.callTimeoutMs, 'a call to the store')
    this.store = {
      shared: store.shared,
      ...this.#optionalStoreParts(store),
      builds: this.#guardCollection('builds', store.builds),
      servers: this.#guardCollection('servers', store.servers),
      details: this.#guardCollection('details', store.details),
      ...(store.demand && { demand: this.#guardCollection('demand', store.demand) }),
      close: () => store.close(),
    }
    this.backend = {
      name: backend.name,
      capabilities: backend.capabilities,
      defaultStore: backend.defaultStore,
      create: (spec, options) => this.#callBackend('create', () => backend.create(spec, options)),
      destroy: (ref, uid, options) => this.#callBackend('destroy', () => backend.destroy(ref, uid, options)),
      list: (options) => this.#callBackend('list', () => backend.list(options)),
      watch: (listener) => backend.watch(listener),
      close: () => backend.close(),
      ...this.#optionalBackendCalls(backend),
    }
  }

  /** The error that calls are rejected with, or undefined while the guard is open. */
  get closedWith(): FleetError | undefined {
    return this.#closedWith
  }

  /** Rejects every call from now on with `error`. If the guard is already closed, keeps the first error. */
  close(error: FleetError): void {
    this.#closedWith ??= error
    this.#limit.finish()
  }

  #guardCollection<T extends Ref>(name: StoreCollection, inner: Collection<T>): Collection<T> {
    const observers = this.#observers
    const call = <R>(operation: StoreOperation, run: () => Promise<R>): Promise<R> => {
      if (this.#closedWith) return Promise.reject(this.#closedWith)
      const limited = () => this.#limit.limit(run())
      if (observers.isEmpty) return limited()
      return observers.timedCall(limited, (observer, outcome, ms) =>
        observer.storeCall?.(name, operation, callOutcome(outcome), ms),
      )
    }
    return {
      get: (ref, options) => call('get', () => inner.get(ref, options)),
      list: (options) => call('list', () => inner.list(options)),
      create: (record, options) => call('create', () => inner.create(record, options)),
      // On the hot path of allocations.
      update: (record, revision, options) =>
        this.#closedWith === undefined && observers.isEmpty
          ? this.#limit.limit(inner.update(record, revision, options))
          : call('update', () => inner.update(record, revision, options)),
      delete: (ref, revision, options) => call('delete', () => inner.delete(ref, revision, options)),
    }
  }

  #callBackend<R>(operation: BackendOperation, run: () => Promise<R>): Promise<R> {
    if (this.#closedWith) return Promise.reject(this.#closedWith)
    if (this.#observers.isEmpty) return run()
    return this.#observers.timedCall(run, (observer, outcome, ms) =>
      observer.backendCall?.(operation, outcome === 'ok' ? 'ok' : 'failed', ms),
    )
  }

  #optionalStoreParts(store: Store): Partial<Store> {
    const { watch, display } = store
    return {
      ...(watch && { watch: watch.bind(store) }),
      ...(display && {
        display: {
          build: (ref, status, readiness) => void (this.#closedWith || display.build(ref, status, readiness)),
          server: (ref, message) => void (this.#closedWith || display.server?.(ref, message)),
          event: (event) => void (this.#closedWith || display.event(event)),
        },
      }),
    } satisfies Partial<Store>
  }

  /** Wraps the backend's optional methods. Methods that the backend does not implement stay undefined. */
  #optionalBackendCalls(backend: Backend): Partial<Backend> {
    const { check, prepare, protect, unprotect, find, logs, writeStdin, exec } = backend
    return {
      ...(check && { check: check.bind(backend) }),
      ...(logs && { logs: logs.bind(backend) }),
      ...(writeStdin && {
        writeStdin: (ref, line, options) =>
          this.#callBackend('stdin', () => writeStdin.call(backend, ref, line, options)),
      }),
      ...(exec && {
        exec: (ref, command, options) => this.#callBackend('exec', () => exec.call(backend, ref, command, options)),
      }),
      ...(prepare && {
        prepare: (build, options) => this.#callBackend('prepare', () => prepare.call(backend, build, options)),
      }),
      ...(protect && {
        protect: (ref, uid, options) => this.#callBackend('protect', () => protect.call(backend, ref, uid, options)),
      }),
      ...(unprotect && {
        unprotect: (ref, uid, options) =>
          this.#callBackend('unprotect', () => unprotect.call(backend, ref, uid, options)),
      }),
      ...(find && {
        find: (recorded, options) => this.#callBackend('find', () => find.call(backend, recorded, options)),
      }),
    } satisfies Partial<Backend>
  }
}
