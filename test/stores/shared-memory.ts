/** A memory store that several hosts can open; each is notified of the others' writes. */
import type { Build, Detail, Ref, Server } from '../../src/rules/model/resources.js'
import type { Collection, CollectionListener, Store, StoreListener, Versioned } from '../../src/contracts/store.js'
import { storeClosed } from '../../src/stores/lmdb-environment.js'
import { memoryStore } from '../../src/stores/memory.js'

export interface SharedMemory {
  /** Opens the store for another host. */
  open(): Store
}

export function sharedMemory(): SharedMemory {
  const records = memoryStore()
  const listeners = new Set<StoreListener>()
  const notify = (call: (listener: StoreListener) => void) => {
    for (const listener of [...listeners]) queueMicrotask(() => listeners.has(listener) && call(listener))
  }
  const kinds = {
    builds: notifying<Build>(records.builds, (call) => notify(({ builds }) => call(builds))),
    servers: notifying<Server>(records.servers, (call) => notify(({ servers }) => call(servers))),
    details: notifying<Detail>(records.details, () => {}),
  }
  return {
    open() {
      const stops = new Set<() => void>()
      let isClosed = false
      const unlessClosed = <T extends Ref>(inner: Collection<T>): Collection<T> => ({
        get: (ref, options) => (isClosed ? Promise.reject(storeClosed()) : inner.get(ref, options)),
        list: (options) => (isClosed ? Promise.reject(storeClosed()) : inner.list(options)),
        create: (record, options) => (isClosed ? Promise.reject(storeClosed()) : inner.create(record, options)),
        update: (record, revision, options) =>
          isClosed ? Promise.reject(storeClosed()) : inner.update(record, revision, options),
        delete: (ref, revision, options) =>
          isClosed ? Promise.reject(storeClosed()) : inner.delete(ref, revision, options),
      })
      return {
        shared: true,
        builds: unlessClosed(kinds.builds),
        servers: unlessClosed(kinds.servers),
        details: unlessClosed(kinds.details),
        ...(records.demand && { demand: unlessClosed(records.demand) }),
        watch(listener) {
          // A copy, so that one listener can watch twice.
          const own = { ...listener }
          listeners.add(own)
          void records.builds.list().then((all) => listeners.has(own) && own.builds.listed(all))
          void records.servers.list().then((all) => listeners.has(own) && own.servers.listed(all))
          const stop = () => void listeners.delete(own)
          stops.add(stop)
          return stop
        },
        close() {
          isClosed = true
          for (const stop of stops) stop()
          return Promise.resolve()
        },
      }
    },
  }
}

function notifying<T extends Ref>(
  inner: Collection<T>,
  notify: (call: (listener: CollectionListener<T>) => void) => void,
): Collection<T> {
  const written = (found: Versioned<T>) => notify((listener) => listener.changed(found))
  return {
    get: (ref, options) => inner.get(ref, options),
    list: (options) => inner.list(options),
    async create(record, options) {
      const revision = await inner.create(record, options)
      written({ record, revision })
      return revision
    },
    async update(record, revision, options) {
      const next = await inner.update(record, revision, options)
      written({ record, revision: next })
      return next
    },
    async delete(ref, revision, options) {
      const isThere = (await inner.get(ref)) !== undefined
      await inner.delete(ref, revision, options)
      const { namespace, name } = ref
      if (isThere) notify((listener) => listener.gone({ namespace, name }))
    },
  }
}
