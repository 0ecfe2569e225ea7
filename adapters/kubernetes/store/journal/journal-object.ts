/** Reads and writes the GameServerJournal of a fleet, in its system namespace. */
import { FleetError } from '../../../../src/contracts/errors.js'
import { statusOf } from '../../client/api-errors.js'
import type { KubernetesApi } from '../../client/api.js'
import { fieldsAt, textAt, textsAt } from '../../client/fields.js'
import { type KubeObject, pathOf, type ResourceType, revisionOf, typeMetaOf } from '../../client/kube-objects.js'

export interface JournalContent {
  /** Which term of which leader has written it last. */
  readonly owner: string
  /** One line for each entry. */
  readonly entries: readonly string[]
}

export interface StoredJournal extends JournalContent {
  readonly revision: string
}

export interface JournalStorage {
  /** Undefined if there is no journal. `isPatient`: a host that may not read it asks again for 3 s. */
  read(isPatient?: boolean): Promise<StoredJournal | undefined>
  /**
   * Replaces the journal at this revision, or creates it, and resolves with the new revision. Rejects with `conflict` or `not-found` if it
   * has changed. After any other rejection, the outcome is unknown.
   */
  write(content: JournalContent, revision: string | undefined): Promise<string>
}

export interface JournalObjectDependencies {
  readonly api: Pick<KubernetesApi, 'object' | 'pause'>
  readonly resource: ResourceType
  readonly namespace: string
  readonly name: string
}

/** Pauses before a patient host asks again. An API server that has just started may forbid for a moment what the roles allow. */
const forbiddenPausesMs = [250, 500, 1_000, 1_500]

export class JournalObject implements JournalStorage {
  readonly #deps: JournalObjectDependencies

  constructor(deps: JournalObjectDependencies) {
    this.#deps = deps
  }

  async read(isPatient = false): Promise<StoredJournal | undefined> {
    for (const ms of isPatient ? forbiddenPausesMs : []) {
      try {
        return await this.#read()
      } catch (error) {
        if (statusOf(error) !== 403) throw error
      }
      await this.#deps.api.pause(ms)
    }
    return this.#read()
  }

  async #read(): Promise<StoredJournal | undefined> {
    const { api, resource, namespace, name } = this.#deps
    const path = pathOf(resource, { namespace, name })
    try {
      return journalIn(await api.object({ what: `get ${this.#what}`, method: 'GET', path, priority: true }))
    } catch (error) {
      if (FleetError.is(error, 'not-found')) return undefined
      throw error
    }
  }

  async write({ owner, entries }: JournalContent, revision: string | undefined): Promise<string> {
    const { api, resource, namespace, name } = this.#deps
    const isNew = revision === undefined
    const object = await api.object({
      what: `${isNew ? 'create' : 'update'} ${this.#what}`,
      method: isNew ? 'POST' : 'PUT',
      path: pathOf(resource, isNew ? { namespace } : { namespace, name }),
      body: {
        ...typeMetaOf(resource),
        metadata: { namespace, name, ...(!isNew && { resourceVersion: revision }) },
        // Without the number, a write that changes nothing would get no new revision.
        spec: { owner, entries, writtenUpon: revision },
      },
      priority: true,
    })
    return revisionOf(object)
  }

  get #what(): string {
    const { resource, namespace, name } = this.#deps
    return `${resource.kind} ${namespace}/${name}`
  }
}

function journalIn(object: KubeObject): StoredJournal {
  const spec = fieldsAt(object, 'spec')
  return { revision: revisionOf(object), owner: textAt(spec, 'owner') ?? '', entries: textsAt(spec, 'entries') }
}
