/**
 * Recovers the uid of builds whose status does not contain it, because the build is just being created or its status was
 * cleared with kubectl. Servers refer to their build by this uid.
 */
import type { CallOptions } from '../../../src/contracts/call-options.js'
import type { Build } from '../../../src/rules/model/resources.js'
import type { ObjectApi } from '../client/api.js'
import { fieldsAt, textAt } from '../client/fields.js'
import { keyFor, type KubeObject, type OwnerReference, pathOf } from '../client/kube-objects.js'
import type { KnownBuild } from './known-builds.js'
import type { FleetResources } from './objects/custom-resources.js'

export type BuildIdentity = Pick<Build, 'uid' | 'createdAt'>

export class BuildIdentities {
  readonly #api: ObjectApi
  readonly #resources: FleetResources
  /** Records whose creation is in progress; their objects may not have a status yet. */
  readonly #creating = new Map<string, Build>()
  /** The build uid that the servers refer to, by the uid of the build's object. */
  readonly #fromServers = new Map<string, string>()

  constructor(api: ObjectApi, resources: FleetResources) {
    this.#api = api
    this.#resources = resources
  }

  creationStarted(key: string, record: Build): void {
    this.#creating.set(key, record)
  }

  creationEnded(key: string): void {
    this.#creating.delete(key)
  }

  creating(object: KubeObject): Build | undefined {
    return this.#creating.get(keyFor(object))
  }

  /** Loads the servers of builds whose identity this host cannot determine in any other way. */
  async loadMissing(
    objects: readonly KubeObject[],
    knownAt: (key: string) => KnownBuild | undefined,
    options: CallOptions | undefined,
  ): Promise<void> {
    const isKnown = (object: KubeObject) => knownAt(keyFor(object))?.owner?.uid === object.metadata.uid
    const unknown = objects.filter((object) => statusUid(object) === undefined && !isKnown(object))
    await Promise.all(unknown.map((object) => this.#loadFromServers(object, options)))
  }

  /**
   * Returns the identity to use instead of the one read from the object, or undefined if that one is correct. `known` is the
   * cached state of the same object.
   */
  recovered(
    record: Build,
    known: KnownBuild | undefined,
    owner: OwnerReference | undefined,
  ): BuildIdentity | undefined {
    if (known) return known.hasIdentity ? { uid: known.record.uid, createdAt: known.record.createdAt } : undefined
    const uid = this.#fromServers.get(owner?.uid ?? '')
    return uid === undefined ? undefined : { uid, createdAt: record.createdAt }
  }

  async #loadFromServers({ metadata }: KubeObject, options: CallOptions | undefined): Promise<void> {
    const { name, namespace, uid } = metadata
    const { servers, buildLabel } = this.#resources
    if (uid === undefined) return
    const { items } = await this.#api.list({
      what: `list servers of build ${name}`,
      method: 'GET',
      path: pathOf(servers, { namespace }),
      query: { labelSelector: `${buildLabel}=${name}` },
      signal: options?.signal,
    })
    const own = items.find((server) => server.metadata.ownerReferences?.some((owner) => owner.uid === uid))
    const buildUid = own && textAt(fieldsAt(own, 'spec'), 'buildUid')
    if (buildUid !== undefined) this.#fromServers.set(uid, buildUid)
  }
}

/** The record's uid stored in the object's status. */
export function statusUid(object: KubeObject): string | undefined {
  return textAt(fieldsAt(object, 'status'), 'uid')
}
