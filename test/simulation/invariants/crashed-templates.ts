/**
 * Tracks templates whose servers crashed during a rolling update. Servers with such a template are on trial until they have
 * stayed up for `backoffResetMs` after becoming ready. Ignores crashes and servers from before the current leader's election,
 * so it never expects more than the leader can know.
 */
import type { FleetLimits } from '../../../src/contracts/options.js'
import { keyOf, type Ref } from '../../../src/rules/model/resources.js'
import type { GameServer, GameServerBuild } from '../../../src/rules/model/wire.js'
import { templateHash } from '../../../src/rules/planning/rollout.js'
import type { StoreModel } from '../models/store-model.js'
import type { World } from '../world/world.js'
import { buildNameOf, isDraining, isReserved, type FleetSnapshot } from './snapshot.js'

/** How much older than the check a snapshot may be. */
const toleranceMs = 5_000

export class CrashedTemplates {
  /** Hash of the template that crashed during the current rolling update, by build name. */
  readonly #templates = new Map<string, string>()
  /** Elapsed ms at which each server was first seen standing by. */
  readonly #readySince = new Map<string, number>()
  /** Template hashes of the last snapshot, by build name. */
  #current = new Map<string, string>()
  #isFirstSnapshot = true

  constructor(
    readonly world: World,
    readonly limits: Pick<FleetLimits, 'backoffResetMs'>,
    readonly store: () => StoreModel,
  ) {}

  leaderElected(): void {
    this.#templates.clear()
    this.#readySince.clear()
    this.#current.clear()
    this.#isFirstSnapshot = true
  }

  serverCrashed(build: Ref, server: Ref): void {
    const { servers, builds } = this.store()
    const hash = servers.get(keyOf(server))?.record.templateHash
    const spec = builds.get(keyOf(build))?.record.spec
    if (hash === undefined || !spec || hash !== templateHash(spec) || hash !== this.#current.get(build.name)) return
    this.#templates.set(build.name, hash)
  }

  update(snapshot: FleetSnapshot): void {
    for (const [key, { status }] of snapshot.servers) {
      if (status.state !== 'StandingBy' || this.#readySince.has(key)) continue
      this.#readySince.set(key, this.#isFirstSnapshot ? -Infinity : this.world.elapsedMs)
    }
    this.#isFirstSnapshot = false
    this.#current = new Map(snapshot.builds.map(({ metadata, spec }) => [metadata.name, templateHash(spec)]))
    const updating = new Set(snapshot.builds.filter((build) => this.#isUpdating(build, snapshot)).map(nameOf))
    for (const [name, hash] of this.#templates) {
      // The trial ends if the rolling update is over or the build now has another template.
      if (!updating.has(name) || this.#current.get(name) !== hash) this.#templates.delete(name)
    }
  }

  /** `hash` is the hash of the template that the server runs. */
  isOnTrial(server: GameServer, hash: string): boolean {
    if (this.#templates.get(buildNameOf(server)) !== hash) return false
    const since = this.#readySince.get(keyOf(server.metadata)) ?? this.world.elapsedMs
    return since + this.limits.backoffResetMs > this.world.elapsedMs + toleranceMs
  }

  /** True while some idle servers that may be replaced still run another template than the build specifies. */
  #isUpdating(build: GameServerBuild, { host, servers }: FleetSnapshot): boolean {
    const { allocations, servers: records } = this.store()
    const hash = templateHash(build.spec)
    if (isDraining(build)) return false
    return [...servers].some(([key, server]) => {
      const { state } = server.status
      if (buildNameOf(server) !== build.metadata.name || (state !== 'StandingBy' && state !== 'Initializing'))
        return false
      return !isReserved(server) && !allocations.isBusy(host, key) && records.get(key)?.record.templateHash !== hash
    })
  }
}

function nameOf({ metadata }: GameServerBuild): string {
  return metadata.name
}
