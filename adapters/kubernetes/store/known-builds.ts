/** The builds that this host has seen or written, with the revision of each record and of its object. */
import { type Build, keyOf } from '../../../src/rules/model/resources.js'
import type { OwnerReference } from '../client/kube-objects.js'

export interface KnownBuild {
  readonly record: Build
  readonly objectRevision: string
  /** Older than `objectRevision` when only counts were written since. */
  readonly recordRevision: string
  readonly owner: OwnerReference | undefined
  /** Its uid is settled: once read from its status or written there, it stays even when the status is cleared. */
  readonly hasIdentity: boolean
}

export class KnownBuilds {
  readonly #byKey = new Map<string, KnownBuild>()
  /** By namespace and uid. Deleted builds stay, so that servers still being created for them are deleted as well. */
  readonly #owners = new Map<string, OwnerReference>()

  get(key: string): KnownBuild | undefined {
    return this.#byKey.get(key)
  }

  set(key: string, known: KnownBuild): void {
    this.#byKey.set(key, known)
    const { record, owner } = known
    if (owner) this.#owners.set(ownerKey(record.namespace, record.uid), owner)
  }

  /** This host has written the record. A watch may have reported this revision, or a later one, before the response. */
  written(key: string, known: KnownBuild, record: Build, revision: string): void {
    const current = this.#byKey.get(key)
    if (current && isNewer(current.objectRevision, revision)) return
    this.set(key, { ...known, record, objectRevision: revision, recordRevision: revision })
  }

  /** This host has written counts, and `known` was the build before. */
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

/** Revisions of one object are increasing numbers. */
export function isNewer(a: string, b: string): boolean {
  return Number(a) > Number(b)
}

function ownerKey(namespace: string, uid: string): string {
  return keyOf({ namespace, name: uid })
}
