/** Servers as GameServer objects. Handing one out is one conditional write of its status: the hot path of the whole fleet. */
import type { CallOptions } from '../../../src/contracts/call-options.js'
import { keyOf, type Ref, type Server } from '../../../src/rules/model/resources.js'
import type { BuildCollection } from './build-collection.js'
import { type CollectionDependencies, CustomCollection } from './custom-collection.js'
import { fieldsAt, type FleetResources, textAt } from './custom-resources.js'
import { keyFor, type KubeObject, type OwnerReference, revisionOf } from '../client/kube-objects.js'
import { ownerOf } from './owner-references.js'
import { hasServerStatus, newServerObject, readServer, type TokenEncryption, serverStatus } from './server-object.js'

interface Known {
  readonly uid: string | undefined
  readonly owner: OwnerReference | undefined
  readonly revision: number
}

export class ServerCollection extends CustomCollection<Server> {
  readonly #resources: FleetResources
  readonly #known = new Map<string, Known>()

  constructor(
    parts: CollectionDependencies,
    resources: FleetResources,
    sealing: TokenEncryption,
    builds: BuildCollection,
  ) {
    super(parts, {
      resource: resources.servers,
      read: (object) => readServer(object, sealing),
      create: (server) =>
        newServerObject(server, resources, sealing, builds.ownerByUid(server.namespace, server.buildUid)),
      rest: (server, upon) => (hasServerStatus(server) ? serverStatus(server, upon) : undefined),
    })
    this.#resources = resources
  }

  /** For what a server has: it goes when the server does. Undefined when this one was not seen. */
  owner(ref: Ref, uid?: string): OwnerReference | undefined {
    const known = this.#known.get(keyOf(ref))
    return uid === undefined || known?.uid === uid ? known?.owner : undefined
  }

  /** Who a server is never changes: one write of its status is all. */
  async update(record: Server, revision: string, options?: CallOptions): Promise<string> {
    const upon = this.revision(revision, record)
    // Players wait for a server to be handed out, and for nothing else.
    const ahead = record.state === 'Active'
    return this.putStatus(record, upon, serverStatus(record, upon), { ...options, ahead })
  }

  override isNews(object: KubeObject): boolean {
    const known = this.#known.get(keyFor(object))
    return known === undefined || Number(revisionOf(object)) > known.revision
  }

  override forgetAll(): void {
    this.#known.clear()
  }

  override forget(ref: Ref, last?: KubeObject): void {
    const known = this.#known.get(keyOf(ref))
    // There is another one of that name already.
    if (known && last && known.revision > Number(revisionOf(last))) return
    this.#known.delete(keyOf(ref))
  }

  protected override seen(object: KubeObject): void {
    const key = keyFor(object)
    const known = this.#known.get(key)
    const revision = Number(revisionOf(object))
    if (known && known.revision >= revision) return
    const owner = known?.owner?.uid === object.metadata.uid ? known?.owner : ownerOf(this.#resources.servers, object)
    this.#known.set(key, { uid: textAt(fieldsAt(object, 'spec'), 'uid'), owner, revision })
  }
}
