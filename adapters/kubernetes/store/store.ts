/**
 * The store of a fleet on Kubernetes: its custom resources, and nothing else. What `kubectl` changes there arrives through
 * `watch`; the figures and events that `kubectl` shows are written by `display`.
 */
import type { CallOptions } from '../../../src/contracts/call-options.js'
import type { Clock } from '../../../src/contracts/clock.js'
import { FleetError, throwIfAborted } from '../../../src/contracts/errors.js'
import type { Logger } from '../../../src/contracts/logger.js'
import type { Detail, Ref } from '../../../src/rules/model/resources.js'
import type { CollectionListener, Store, StoreListener } from '../../../src/contracts/store.js'
import type { KubernetesApi } from '../client/api.js'
import { BuildCollection } from './build-collection.js'
import { type CollectionDependencies, CustomCollection } from './custom-collection.js'
import { detailSpec, newDetailObject, readDetail } from './detail-object.js'
import { storeDisplay } from './display.js'
import { fleetResources } from './custom-resources.js'
import type { KubeObject, OwnerReference, ResourceType } from '../client/kube-objects.js'
import { openTokenEncryption } from './token-encryption.js'
import { ServerCollection } from './server-collection.js'
import { watchCollection } from '../client/watch.js'

export interface KubernetesStoreOptions {
  readonly api: KubernetesApi
  readonly clock: Clock
  readonly logger: Logger
  /** Of the custom resources. */
  readonly group: string
  /** Where the fleet keeps what is its own: the key that tokens are sealed with. */
  readonly systemNamespace: string
  /** Those whose builds are this fleet's. Undefined: all. */
  readonly namespaces: readonly string[] | undefined
}

export interface KubernetesStore extends Store {
  /** The object of a server, as the owner of others. Undefined when it was not seen: another store is in use. */
  ownerOfServer(ref: Ref, uid?: string): OwnerReference | undefined
}

/** Closes nothing of its own but its watches: the api is whoever's it is. */
export async function openKubernetesStore(options: KubernetesStoreOptions): Promise<KubernetesStore> {
  const { api, clock, logger, group, namespaces } = options
  const resources = fleetResources(group)
  const sealing = await openTokenEncryption({ api, clock, logger, namespace: options.systemNamespace })
  const closing = new AbortController()
  const throwIfClosed = () => {
    if (closing.signal.aborted) throw new FleetError('closed', 'the store is closed')
  }
  const parts: CollectionDependencies = { api, namespaces, throwIfClosed }
  const builds = new BuildCollection(parts, resources)
  const servers = new ServerCollection(parts, resources, sealing, builds)
  const ownerOfServer = (ref: Ref, uid?: string) => servers.owner(ref, uid)
  const details = new DetailCollection(parts, {
    resource: resources.details,
    read: readDetail,
    create: (detail) => newDetailObject(detail, resources, servers.owner(detail)),
  })

  /** Paths that are followed, and whether anything is heard of them now. */
  const heard = new Map<string, boolean>()

  function follow<T extends Ref>(collection: CustomCollection<T>, resource: ResourceType, to: CollectionListener<T>) {
    const stops = collection.paths().map((path) => {
      const within = namespaceOf(path)
      heard.set(path, false)
      const stop = watchCollection(
        { api, clock, logger, what: resource.plural, path },
        {
          followed: () => heard.set(path, true),
          broken: () => heard.set(path, false),
          restored: () => collection.forgetAll(),
          listed(objects) {
            const all = objects.map((object) => collection.versioned(object)).filter((found) => found !== undefined)
            to.listed(all, within)
          },
          changed(object) {
            if (!collection.isNews(object)) return
            const found = collection.versioned(object)
            if (found) to.changed(found)
            else if (object.metadata.deletionTimestamp !== undefined) to.gone(refOf(object))
          },
          deleted(object) {
            collection.forget(refOf(object), object)
            to.gone(refOf(object))
          },
        },
      )
      return () => {
        stop()
        heard.delete(path)
      }
    })
    return () => stops.forEach((stop) => stop())
  }

  const display = storeDisplay({ api, clock, logger, builds, resources, ownerOfServer })
  const store: KubernetesStore = {
    shared: true,
    builds,
    servers,
    details,
    display,
    ownerOfServer,
    watch(listener: StoreListener) {
      const stops = [
        follow(builds, resources.builds, listener.builds),
        follow(servers, resources.servers, listener.servers),
      ]
      const stop = () => stops.forEach((end) => end())
      closing.signal.addEventListener('abort', stop, { once: true })
      return () => {
        closing.signal.removeEventListener('abort', stop)
        stop()
      }
    },
    async probe(probing) {
      throwIfClosed()
      throwIfAborted(probing?.signal)
      if (heard.size > 0 && [...heard.values()].every(Boolean)) return
      await builds.get({ namespace: namespaces?.[0] ?? options.systemNamespace, name: 'x' }, probing)
    },
    async close() {
      closing.abort()
      await display.close()
    },
  }
  return store
}

class DetailCollection extends CustomCollection<Detail> {
  async update(record: Detail, revision: string, options?: CallOptions): Promise<string> {
    const upon = this.revision(revision, record)
    return this.patchSpec(record, upon, detailSpec(record, upon), options)
  }
}

function refOf({ metadata }: KubeObject): Ref {
  return { namespace: metadata.namespace ?? '', name: metadata.name }
}

function namespaceOf(path: string): string | undefined {
  return /\/namespaces\/([^/]+)\//.exec(path)?.[1]
}
