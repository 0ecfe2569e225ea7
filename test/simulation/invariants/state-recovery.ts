/** Invariant: a new leader knows everything that was in the store when it was elected. */
import { isDeepStrictEqual } from 'node:util'
import { keyOf, type Server } from '../../../src/rules/model/resources.js'
import type { GameServer } from '../../../src/rules/model/wire.js'
import type { StoreModel } from '../models/store-model.js'
import type { World } from '../world/world.js'
import type { FleetSnapshot } from './snapshot.js'

const stateOrder = ['Pending', 'Initializing', 'StandingBy', 'Active', 'Terminating'] as const

export class StateRecovery {
  /** The store's latest revision when the current leader was elected; undefined after the check. */
  #revisionAtElection: number | undefined

  constructor(
    readonly world: World,
    readonly store: () => StoreModel,
  ) {}

  leaderElected(): void {
    this.#revisionAtElection = this.store().latestRevision
  }

  /** Checks only records that were not written since the election: the leader may know more or less about the others. */
  check(snapshot: FleetSnapshot): void {
    const electionRevision = this.#revisionAtElection
    if (electionRevision === undefined) return
    this.#revisionAtElection = undefined
    const { builds, servers } = this.store()
    const isUnchanged = ({ revision }: { readonly revision: string }) => Number(revision) <= electionRevision
    for (const { record } of [...builds.values()].filter(isUnchanged)) {
      const known = snapshot.builds.find(({ metadata }) => keyOf(metadata) === keyOf(record))
      if (known && isDeepStrictEqual(known.spec, record.spec) && known.status.crashesCount >= record.crashes) continue
      this.world.violate(`build ${record.name} was not recovered: ${snapshot.host.name} has ${JSON.stringify(known)}`)
    }
    for (const { record } of [...servers.values()].filter(isUnchanged)) {
      const known = snapshot.servers.get(keyOf(record))
      if (known && isRecovered(record, known)) continue
      const was = `${record.state} with session ${record.sessions[0]?.id ?? 'none'}`
      const is = known ? `${known.status.state} with session ${known.status.sessionID ?? 'none'}` : 'nothing'
      this.world.violate(`${record.name} was ${was} in the store, but ${snapshot.host.name} has ${is}`)
    }
  }
}

/** The server may be in a later state than its record, having become ready or exited while there was no leader. */
function isRecovered(record: Server, { status }: GameServer): boolean {
  if (record.state === 'Active' && status.state === 'Active') return status.sessionID === record.sessions[0]?.id
  return stateOrder.indexOf(status.state) >= stateOrder.indexOf(record.state)
}
