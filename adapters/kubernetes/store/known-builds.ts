/** The builds that this host has read or written, with the revisions of each record and of its object. */
import { type Build, keyOf } from '../../../src/rules/model/resources.js'
import type { OwnerReference } from '../client/kube-objects.js'

export interface KnownBuild {
  readonly record: Build
  readonly objectRevision: string
  /** Older than `objectRevision` if only counts have been written since. */
  readonly recordRevision: string
  readonly owner: OwnerReference | undefined
  /**
   * Whether the uid is final. Once read from the build's status or written to it, it stays the same even if the status is
   * cleared.
   */
  readonly hasIdentity: boolean
}

export class KnownBuilds {
  readonly #byKey = new Map<string, KnownBuild>()
  /**
   * Owner references by namespace and uid. Deleted builds remain here, so that servers still being created for them refer to
   * the deleted owner and are deleted too.
   */
  readonly #owners = new Map<string, OwnerReference>()

  get(key: string): KnownBuild | undefined {
    return this.#byKey.get(key)
  }

  set(key: string, known: KnownBuild): void {
    this.#byKey.set(key, known)
    const { record, owner } = known
    if (owner) this.#owners.set(ownerKey(record.namespace, record.uid), owner)
  }

  /** Call after this host has written the record. A watch may already have reported this revision or a later one. */
  written(key: string, known: KnownBuild, record: Build, revision: string): void {
    const current = this.#byKey.get(key)
    if (current && isNewer(current.objectRevision, revision)) return
    this.set(key, { ...known, record, objectRevision: revision, recordRevision: revision })
  }

  /** Call after this host has written counts. `known` is the build before the write. */
  countsWritten(key: string, known: KnownBuild, revision: string): void {
    if (this.#byKey.get(key) !== known) return
    this.#byKey.set(key, { ...known, objectRevision: revision, hasIdentity: true })
  }

  delete(key: string): void {
    this.#byKey.delete(key)
  }

  clear(): void {
    this.#byKey.clear()
  }

  ownerByUid(namespace: string, uid: string): OwnerReference | undefined {
    return this.#owners.get(ownerKey(namespace, uid))
  }
}

/** Compares two revisions of the same object, which are increasing numbers. */
export function isNewer(a: string, b: string): boolean {
  return Number(a) > Number(b)
}

function ownerKey(namespace: string, uid: string): string {
  return keyOf({ namespace, name: uid })
}
