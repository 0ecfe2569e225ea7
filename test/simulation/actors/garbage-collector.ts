/**
 * Models a cluster's garbage collector: some time after a build is deleted, its server records are deleted, and some time
 * after a server record is deleted, its instance is deleted.
 */
import { type Build, keyOf, type Server } from '../../../src/rules/model/resources.js'
import type { SimulationContext } from '../context.js'
import type { World } from '../world/world.js'

export class GarbageCollector {
  constructor(
    readonly world: World,
    readonly context: () => Pick<SimulationContext, 'store' | 'invariants' | 'backend'>,
  ) {}

  buildRemoved({ uid }: Build): void {
    for (const { record } of this.context().store.servers.values())
      if (record.buildUid === uid) this.#deleteRecordLater(record)
  }

  serverWritten(before: Server | undefined, after: Server): void {
    const build = this.context().store.builds.get(keyOf({ namespace: after.namespace, name: after.build }))
    if (!before && build?.record.uid !== after.buildUid) this.#deleteRecordLater(after)
  }

  serverRemoved(server: Server): void {
    this.#later(() => {
      const { backend } = this.context()
      const instance = backend.instances.get(keyOf(server))
      if (instance?.spec.uid === server.uid) backend.deleteExternally(instance, true)
    })
  }

  #deleteRecordLater(server: Server): void {
    this.#later(() => {
      const context = this.context()
      const current = context.store.servers.get(keyOf(server))?.record
      if (current?.uid !== server.uid) return
      deleteServerRecord(context, current)
      this.world.note(`garbage collector: deletes the record of ${server.name}, whose build is gone`)
    })
  }

  #later(fn: () => void): void {
    this.world.after(this.world.between(0, 20_000), fn)
  }
}

/** Deletes a server record directly in the store. The server becomes an orphan, which the fleet may terminate. */
export function deleteServerRecord(
  { store, invariants }: Pick<SimulationContext, 'store' | 'invariants'>,
  server: Server,
): void {
  invariants.sessions.recordDeleted(server.uid)
  invariants.externalEdits.recordDeleted(server)
  store.removeServer(server)
}
