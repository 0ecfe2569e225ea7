/** The calls of one host to a store with a journal, and what it has received. */
import { FleetError } from '../../../src/contracts/errors.js'
import { keyOf } from '../../../src/rules/model/resources.js'
import type { Host } from '../world/host.js'
import type { World } from '../world/world.js'
import { remoteCall, type RemoteCallOptions } from './remote-call.js'
import type { StoredServer } from './tested-journal.js'

export interface CallObserver {
  /** A host has received this version of a record. */
  received(host: Host, found: StoredServer): void
  counted(isChange: boolean): void
  /** How long the store takes for a list, in ms. */
  listMs(): number
}

export class HostCalls {
  readonly seen = new Map<string, StoredServer>()
  lastUrgentMs = -Infinity

  constructor(
    readonly world: World,
    readonly host: Host,
    readonly options: RemoteCallOptions,
    readonly store: CallObserver,
  ) {}

  receive(found: StoredServer): StoredServer {
    const key = keyOf(found.record)
    if (Number(this.seen.get(key)?.revision ?? 0) <= Number(found.revision)) this.seen.set(key, found)
    this.store.received(this.host, found)
    return found
  }

  request<T>(effect: () => T | Promise<T>, replied: (result: T) => void = () => {}): Promise<T> {
    this.store.counted(false)
    const reply = remoteCall(this.world, this.host, this.options, effect)
    // Subscribes before the caller does, so that this runs before the caller continues.
    reply.then(replied, () => {})
    return reply
  }

  /** A list is as old as its first page. Writes that are made while it is being read are not in it. */
  list<T>(effect: () => T): Promise<T> {
    return this.request(async () => {
      const found = effect()
      await new Promise<void>((resolve) => this.world.after(this.store.listMs(), resolve))
      return found
    })
  }

  read(effect: () => StoredServer | undefined): Promise<StoredServer | undefined> {
    return this.request(effect, (found) => void (found && this.receive(found)))
  }

  write(effect: () => StoredServer): Promise<StoredServer> {
    return this.change(effect, (found) => void this.receive(found))
  }

  /** As the fence does, refuses the writes of a host that does not lead. */
  change<T>(effect: () => T, replied?: (result: T) => void): Promise<T> {
    const { host } = this
    if (!host.leads || host.closed) return Promise.reject(new FleetError('not-leader', `${host.name} does not lead`))
    host.beforeChange('store')
    this.store.counted(true)
    return this.request(effect, replied)
  }
}
