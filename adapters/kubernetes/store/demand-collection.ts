/** Stores the demand for a build on one day as a GameServerDemand object, which the cluster deletes with its build. */
import type { CallOptions } from '../../../src/contracts/call-options.js'
import { type DemandRecord, isDemandDay } from '../../../src/rules/demand/demand-day.js'
import type { Ref } from '../../../src/rules/model/resources.js'
import { objectAt } from '../../../src/rules/validation/pod-template.js'
import { type KubeObject, type OwnerReference, typeMetaOf } from '../client/kube-objects.js'
import { CustomCollection, type CustomObjectsDependencies, type FleetResources } from './custom-collection.js'

export class DemandCollection extends CustomCollection<DemandRecord> {
  readonly #resources: FleetResources
  readonly #ownerOfBuild: (build: Ref) => OwnerReference | undefined

  constructor(
    deps: CustomObjectsDependencies,
    resources: FleetResources,
    ownerOfBuild: (build: Ref) => OwnerReference | undefined,
  ) {
    super(deps, resources.demand)
    this.#resources = resources
    this.#ownerOfBuild = ownerOfBuild
  }

  protected read(object: KubeObject): DemandRecord | undefined {
    const { name, namespace } = object.metadata
    const { build, writtenUpon: _, ...day } = objectAt(object, 'spec')
    if (namespace === undefined || typeof build !== 'string' || !isDemandDay(day)) return undefined
    return { ...day, namespace, name, build }
  }

  protected newObject(record: DemandRecord): object {
    const { name, namespace, build } = record
    const owner = this.#ownerOfBuild({ namespace, name: build })
    return {
      ...typeMetaOf(this.#resources.demand),
      metadata: {
        name,
        namespace,
        labels: { [this.#resources.buildLabel]: build },
        ...(owner && { ownerReferences: [owner] }),
      },
      spec: specOf(record),
    }
  }

  async update(record: DemandRecord, revision: string, options?: CallOptions): Promise<string> {
    const basedOn = this.checkedRevision(revision, record)
    return this.patchSpec(record, basedOn, specOf(record, basedOn), options)
  }
}

/** `basedOn` is the revision that the write replaces. Including it changes the object, so that every write gets a new revision. */
function specOf({ namespace: _, name: __, ...spec }: DemandRecord, basedOn?: string): object {
  return { ...spec, writtenUpon: basedOn }
}
