/** Stores details as GameServerDetail objects. */
import type { CallOptions } from '../../../src/contracts/call-options.js'
import type { Detail } from '../../../src/rules/model/resources.js'
import { CustomCollection } from './custom-collection.js'
import type { CustomObjectsDependencies } from './custom-objects.js'
import type { FleetResources } from './objects/custom-resources.js'
import { detailSpec, newDetailObject, readDetail } from './objects/detail-object.js'
import type { ServerCollection } from './server-collection.js'

export class DetailCollection extends CustomCollection<Detail> {
  constructor(deps: CustomObjectsDependencies, resources: FleetResources, servers: ServerCollection) {
    super(deps, {
      resource: resources.details,
      read: readDetail,
      create: (detail) => newDetailObject(detail, resources, servers.owner(detail)),
    })
  }

  async update(record: Detail, revision: string, options?: CallOptions): Promise<string> {
    const basedOn = this.checkedRevision(revision, record)
    return this.patchSpec(record, basedOn, detailSpec(record, basedOn), options)
  }
}
