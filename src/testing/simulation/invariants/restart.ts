/** After a restart everything is what it was: a new leader knows whatever the store knew when it was elected. */
import { isDeepStrictEqual } from 'node:util'
import { keyOf, type Server } from '../../../rules/model/resources.js'
import type { GameServer } from '../../../rules/model/wire.js'
import type { StoreModel } from '../store-model.js'
import type { World } from '../world.js'
import type { Seen } from './seen.js'

const order = ['Pending', 'Initializing', 'StandingBy', 'Active', 'Terminating'] as const

export class Restart {
  /** The newest revision when the present leader was elected; absent once it was looked at. */
  #electedAt: number | undefined

  constructor(
    readonly world: World,
    readonly store: () => StoreModel,
  ) {}

  elected(): void {
    this.#electedAt = this.store().newest
  }

  /** Looks at records that nobody has written since: of the others the leader may know more, or not yet as much. */
  check(seen: Seen): void {
    const electedAt = this.#electedAt
    if (electedAt === undefined) return
    this.#electedAt = undefined
    const { builds, servers } = this.store()
    const isOfBefore = ({ revision }: { readonly revision: string }) => Number(revision) <= electedAt
    for (const { record } of [...builds.values()].filter(isOfBefore)) {
      const known = seen.builds.find(({ metadata }) => keyOf(metadata) === keyOf(record))
      if (known && isDeepStrictEqual(known.spec, record.spec) && known.status.crashesCount >= record.crashes) continue
      this.world.breach(`build ${record.name} is not what it was: ${seen.host.name} has ${JSON.stringify(known)}`)
    }
    for (const { record } of [...servers.values()].filter(isOfBefore)) {
      const known = seen.servers.get(keyOf(record))
      if (known && isAsBefore(record, known)) continue
      const was = `${record.state} with session ${record.session?.id ?? 'none'}`
      const is = known ? `${known.status.state} with session ${known.status.sessionID ?? 'none'}` : 'nothing'
      this.world.breach(`${record.name} was ${was}, and ${seen.host.name} knows it as ${is}`)
    }
  }
}

/** Or further on its way: it may have been ready, or have ended, while nobody led. */
function isAsBefore(record: Server, { status }: GameServer): boolean {
  if (record.state === 'Active' && status.state === 'Active') return status.sessionID === record.session?.id
  return order.indexOf(status.state) >= order.indexOf(record.state)
}
