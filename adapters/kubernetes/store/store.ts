/**
 * The store of a fleet on Kubernetes: custom resources are the records. Changes made with kubectl arrive through `watch`;
 * `display` writes the counts and Events that kubectl shows.
 */
import type { CallOptions } from '../../../src/contracts/call-options.js'
import { FleetError, throwIfAborted } from '../../../src/contracts/errors.js'
import type { AllocateRequested } from '../../../src/contracts/sessions.js'
import type { CollectionListener, Store, StoreListener } from '../../../src/contracts/store.js'
import { deriveKey } from '../../../src/platform/tls.js'
import type { Ref } from '../../../src/rules/model/resources.js'
import type { ApiContext } from '../client/api.js'
import { leases, type OwnerReference, refOf, type ResourceType, typeMetaOf } from '../client/kube-objects.js'
import { watchCollection } from '../client/watch.js'
import { leaseName } from '../leader-election/lease.js'
import { type CheckTemplate, type TemplateProblem, TemplateReview } from '../provisioning/template-check.js'
import { BuildCollection } from './build-collection.js'
import {
  type CustomCollection,
  CustomObjects,
  type CustomObjectsDependencies,
  type FleetResources,
  fleetResources,
} from './custom-collection.js'
import { DemandCollection } from './demand-collection.js'
import { ClusterDisplay, involvedObject } from './display.js'
import { FleetHome } from './fleet-home.js'
import { FleetKey, tokenEncryption } from './fleet-key.js'
import { JournalObject } from './journal/journal.js'
import type { KubeEvent } from './kube-events.js'
import { RequestedAllocations } from './requested-allocations.js'
import { DetailCollection, ServerCollection } from './server-collection.js'

/** The API is not closed together with the store. */
export interface KubernetesStoreOptions extends ApiContext {
  /** API group of the custom resources. */
  readonly group: string
  /** Namespace of the Secret that contains the token encryption key. */
  readonly systemNamespace: string
  /** Namespaces of the fleet's builds; undefined means all. */
  readonly namespaces: readonly string[] | undefined
  /** Whether this host leads. Default: not known. */
  readonly isLeading?: () => boolean
  /** Changes whenever this host becomes the leader; undefined while it does not lead. Default: not known, so each write is by itself. */
  readonly term?: () => number | undefined
  /** The smallest number of allocations that are written together. Default 2. */
  readonly minGroup?: number
  readonly checkTemplate?: CheckTemplate
  /** Called once the store has closed. */
  readonly onClosed?: () => void
}

export async function openKubernetesStore(options: KubernetesStoreOptions): Promise<KubernetesStore> {
  const store = new KubernetesStore(options)
  try {
    await store.open()
  } catch (error) {
    // Otherwise the host would go on watching the key, and restore it.
    await store.close()
    throw error
  }
  return store
}

export class KubernetesStore implements Store {
  readonly shared = true
  readonly builds: BuildCollection
  readonly servers: ServerCollection
  readonly details: DetailCollection
  readonly demand: DemandCollection
  readonly display: ClusterDisplay
  readonly #options: KubernetesStoreOptions
  readonly #resources: FleetResources
  /** Whether the watch of each path is open. */
  readonly #open = new Map<string, boolean>()
  readonly #allocations: CustomObjects
  readonly #closing = new AbortController()
  readonly #key: FleetKey
  readonly #home: FleetHome

  constructor(options: KubernetesStoreOptions) {
    const { api, clock, logger, group, namespaces, systemNamespace, isLeading = () => false } = options
    this.#options = options
    const context = { api, clock, logger }
    const resources = fleetResources(group)
    this.#resources = resources
    const deps: CustomObjectsDependencies = { api, namespaces, throwIfClosed: () => this.#throwIfClosed() }
    this.#home = new FleetHome({ api, logger, home: systemNamespace, annotation: resources.homeAnnotation })
    this.builds = new BuildCollection(
      { ...deps, clock, home: this.#home, checkTemplate: options.checkTemplate },
      resources,
    )
    const encryption = tokenEncryption({ clock, logger, key: () => this.#key.key })
    const editRefused = (ref: Ref, message: string) => {
      const object = involvedObject(resources.servers, ref, this.ownerOfServer(ref))
      this.display.show({ type: 'Warning', reason: 'EditRefused', message, object })
    }
    const { term = () => undefined, minGroup } = options
    const journal = {
      clock,
      logger,
      term,
      key: () => this.deriveKey('journal'),
      storage: new JournalObject({
        api,
        resource: resources.journals,
        namespace: systemNamespace,
        name: leaseName({ group, namespaces }),
      }),
      warn: (message: string) => this.#warnOfJournal(message),
      ...(minGroup !== undefined && { minGroup }),
    }
    const more = { logger, editRefused, journal }
    this.servers = new ServerCollection(deps, resources, encryption, this.builds, more)
    this.details = new DetailCollection(deps, resources, this.servers)
    this.demand = new DemandCollection(deps, resources, (build) => this.builds.owner(build))
    this.#allocations = new CustomObjects(deps, resources.allocations)
    const ownerOfServer = (ref: Ref) => this.ownerOfServer(ref)
    const { builds, servers } = this
    this.display = new ClusterDisplay({ ...context, builds, resources, ownerOfServer, messages: servers })
    this.#key = new FleetKey({
      ...context,
      group,
      namespace: systemNamespace,
      isLeading,
      serverPaths: servers.paths(),
      event: (event) => this.display.show(event),
    })
  }

  async open(): Promise<void> {
    await this.#key.open()
    await this.#home.open(() => this.builds.seeAll())
  }

  /** Why this host must not lead. */
  get obstacle(): string | undefined {
    return this.#home.obstacle ?? this.#key.obstacle
  }

  /**
   * Owner reference for objects that belong to a server. Undefined if this store has not seen the server's object, for
   * example because the fleet uses another store.
   */
  ownerOfServer(ref: Ref, uid?: string): OwnerReference | undefined {
    return this.servers.owner(ref, uid)
  }

  /**
   * Undefined while this host does not know the fleet's key. The key itself seals tokens only. Fleets whose systemNamespace is the same share
   * the Secret, and still derive different keys.
   */
  deriveKey(purpose: string): Uint8Array | undefined {
    const { key } = this.#key
    const { group, namespaces } = this.#options
    return key && deriveKey(key, [purpose, group, ...(namespaces?.toSorted() ?? ['*'])].join(' '))
  }

  /** An Event about the Lease says who leads, as with other controllers. */
  announceLeader(lease: Ref, message: string): void {
    const object = { ...typeMetaOf(leases), ...lease }
    this.display.show({ type: 'Normal', reason: 'LeaderElection', message, object })
  }

  /** An Event of the build says which image could not be pulled ahead. */
  warnOfImage(build: Ref, message: string): void {
    const object = involvedObject(this.#resources.builds, build, this.builds.owner(build))
    this.display.show({ type: 'Warning', reason: 'ImagePullFailed', message, object })
  }

  #warnOfJournal(message: string): void {
    const { group, namespaces, systemNamespace: namespace } = this.#options
    const object = { ...typeMetaOf(this.#resources.journals), namespace, name: leaseName({ group, namespaces }) }
    this.display.show({ type: 'Warning', reason: 'JournalEdited', message, object })
  }

  watch(listener: StoreListener): () => void {
    const { review, builds } = this.#reviewed(listener)
    const stops = [
      this.#follow(this.builds, this.#resources.builds, builds),
      this.#follow(this.servers, this.#resources.servers, listener.servers),
    ]
    const stop = () => {
      stops.forEach((end) => end())
      review?.stop()
      this.servers.forgetMessages()
    }
    return this.#untilClosed(stop)
  }

  /** Reports changes until the returned function is called. */
  #follow<T extends Ref>(
    collection: CustomCollection<T>,
    resource: ResourceType,
    listener: CollectionListener<T>,
  ): () => void {
    const stops = collection.paths().map((path) => this.#followPath(path, collection, resource, listener))
    return () => stops.forEach((stop) => stop())
  }

  #followPath<T extends Ref>(
    path: string,
    collection: CustomCollection<T>,
    { plural }: ResourceType,
    listener: CollectionListener<T>,
  ): () => void {
    const namespace = namespaceOf(path)
    this.#open.set(path, false)
    const stop = watchCollection(
      { ...this.#options, what: plural, path },
      {
        followed: () => this.#open.set(path, true),
        broken: () => this.#open.set(path, false),
        restored: () => collection.forgetAll(),
        listed(objects) {
          const all = objects.map((object) => collection.versioned(object)).filter((found) => found !== undefined)
          listener.listed(all, namespace)
        },
        changed(object) {
          if (!collection.isUnseen(object)) return
          const versioned = collection.versioned(object)
          if (versioned) listener.changed(versioned)
          else if (object.metadata.deletionTimestamp !== undefined) listener.gone(refOf(object))
        },
        deleted(object) {
          collection.forget(refOf(object), object)
          listener.gone(refOf(object))
        },
      },
    )
    return () => {
      stop()
      this.#open.delete(path)
    }
  }

  /** What is written through this store is checked before; what others write, afterwards. */
  #reviewed({ builds }: StoreListener) {
    const { checkTemplate: check } = this.#options
    if (!check) return { builds }
    const warn = (build: Ref, { message, isDropped }: TemplateProblem) => {
      const object = involvedObject(this.#resources.builds, build, this.builds.owner(build))
      const reason = isDropped ? 'TemplateFieldsUnknown' : 'TemplateInvalid'
      this.display.show({ type: 'Warning', reason, message, object })
    }
    const review = new TemplateReview({ check, warn })
    return { review, builds: review.reviewing(builds) }
  }

  /** Returns a function that stops; closing the store stops, too. */
  #untilClosed(stop: () => void): () => void {
    const { signal } = this.#closing
    signal.addEventListener('abort', stop, { once: true })
    return () => {
      signal.removeEventListener('abort', stop)
      stop()
    }
  }

  serveAllocations(allocate: AllocateRequested): () => void {
    const { api, clock, logger } = this.#options
    const resource = this.#resources.allocations
    const event = (shown: Omit<KubeEvent, 'at'>) => this.display.show(shown)
    const requested = new RequestedAllocations(
      { api, clock, logger, resource, objects: this.#allocations, event },
      allocate,
    )
    return this.#untilClosed(() => requested.stop())
  }

  async probe(options?: CallOptions): Promise<void> {
    this.#throwIfClosed()
    throwIfAborted(options?.signal)
    // Some collection is being followed, and every watch is open.
    if (this.#open.size > 0 && [...this.#open.values()].every(Boolean)) return
    const { namespaces, systemNamespace } = this.#options
    await this.builds.get({ namespace: namespaces?.[0] ?? systemNamespace, name: 'x' }, options)
  }

  async close(): Promise<void> {
    this.#closing.abort()
    try {
      this.servers.close()
      this.#home.close()
      await this.#key.close()
      await this.display.close()
    } finally {
      this.#options.onClosed?.()
    }
  }

  #throwIfClosed(): void {
    if (this.#closing.signal.aborted) throw new FleetError('closed', 'the store is closed')
  }
}

function namespaceOf(path: string): string | undefined {
  return /\/namespaces\/([^/]+)\//.exec(path)?.[1]
}
