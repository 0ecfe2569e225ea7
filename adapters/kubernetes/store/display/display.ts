/**
 * Writes what `kubectl get` and `kubectl describe` show in addition to the records: build counts and Events. The fleet never
 * reads this data back and never waits for the writes.
 */
import type { Clock } from '../../../../src/contracts/clock.js'
import type { FleetEvent } from '../../../../src/contracts/events.js'
import type { Logger } from '../../../../src/contracts/logger.js'
import type { DisplayedReadiness, StoreDisplay } from '../../../../src/contracts/store.js'
import type { Ref } from '../../../../src/rules/model/resources.js'
import type { GameServerBuild } from '../../../../src/rules/model/wire.js'
import type { KubernetesApi } from '../../client/api.js'
import { type OwnerReference, type ResourceType, typeMetaOf } from '../../client/kube-objects.js'
import type { BuildCollection } from '../build-collection.js'
import type { FleetResources } from '../objects/custom-resources.js'
import { BackgroundWork } from './background-work.js'
import { BuildCountsWriter } from './build-counts-writer.js'
import { EventWriter } from './event-writer.js'
import { type PendingMessages, ServerMessages } from './server-messages.js'
import { type InvolvedObject, isRoutine, type KubeEvent, kubeEventOf, type ObjectLookup } from './kube-event.js'

export interface ClusterDisplayDependencies {
  readonly api: KubernetesApi
  readonly clock: Clock
  readonly logger: Logger
  readonly builds: BuildCollection
  readonly resources: FleetResources
  readonly ownerOfServer: (ref: Ref) => OwnerReference | undefined
  readonly messages: PendingMessages
}

export class ClusterDisplay implements StoreDisplay {
  readonly #work: BackgroundWork
  readonly #counts: BuildCountsWriter
  readonly #events: EventWriter
  readonly #messages: ServerMessages
  readonly #objects: ObjectLookup

  constructor(deps: ClusterDisplayDependencies) {
    const { api, clock, logger, builds, resources, ownerOfServer, messages } = deps
    const work = new BackgroundWork(logger)
    this.#work = work
    this.#counts = new BuildCountsWriter({ clock, logger, builds, work })
    this.#events = new EventWriter({ api, clock, work })
    this.#messages = new ServerMessages({ api, clock, work, messages })
    this.#objects = {
      build: (ref) => involvedObject(resources.builds, ref, builds.owner(ref)),
      server: (ref) => involvedObject(resources.servers, ref, ownerOfServer(ref)),
    }
  }

  build(ref: Ref, status: GameServerBuild['status'], readiness: DisplayedReadiness): void {
    this.#counts.write(ref, status, readiness)
  }

  server(ref: Ref, message: string | undefined): void {
    this.#messages.show(ref, message)
  }

  event(event: FleetEvent): void {
    const kubeEvent = kubeEventOf(event, this.#objects)
    if (kubeEvent) this.#events.write(kubeEvent, isRoutine(event))
  }

  show(event: KubeEvent): void {
    this.#events.write(event)
  }

  async close(): Promise<void> {
    this.#work.close()
    this.#counts.stop()
    this.#messages.stop()
    await this.#work.settled()
  }
}

export function involvedObject(
  resource: ResourceType,
  { namespace, name }: Ref,
  owner: OwnerReference | undefined,
): InvolvedObject {
  return { ...typeMetaOf(resource), namespace, name, ...(owner && { uid: owner.uid }) }
}
