/**
 * Of a template that has crashed during a change, which servers are not trusted yet: those that have not stayed up for
 * `backoffResetMs` since they got ready. Knows less than the fleet does, never more: what was there when the leader
 * began, or crashed before, it lets pass.
 */
import type { FleetLimits } from '../../../contracts/options.js'
import { keyOf, type Ref } from '../../../rules/model/resources.js'
import { templateHash } from '../../../rules/planning/template-hash.js'
import type { GameServer, GameServerBuild } from '../../../rules/model/wire.js'
import type { StoreModel } from '../store-model.js'
import type { World } from '../world.js'
import { buildNameOf, isDraining, type Seen } from './seen.js'

/** A look may come this much later than what it sees. */
const lateMs = 5_000

export class Crashed {
  /** The template of which one has crashed during the present change, by build. */
  readonly #templates = new Map<string, string>()
  /** Elapsed ms at which each server was first seen standing by. */
  readonly #since = new Map<string, number>()
  /** The templates of builds as the leader had them. */
  #present = new Map<string, string>()
  #starting = true

  constructor(
    readonly world: World,
    readonly limits: Pick<FleetLimits, 'backoffResetMs'>,
    readonly store: () => StoreModel,
  ) {}

  elected(): void {
    this.#templates.clear()
    this.#since.clear()
    this.#present.clear()
    this.#starting = true
  }

  ended(build: Ref, server: Ref): void {
    const { servers, builds } = this.store()
    const hash = servers.get(keyOf(server))?.record.templateHash
    const spec = builds.get(keyOf(build))?.record.spec
    if (hash === undefined || !spec || hash !== templateHash(spec) || hash !== this.#present.get(build.name)) return
    this.#templates.set(build.name, hash)
  }

  look(seen: Seen): void {
    for (const [key, { status }] of seen.servers) {
      if (status.state !== 'StandingBy' || this.#since.has(key)) continue
      this.#since.set(key, this.#starting ? -Infinity : this.world.elapsedMs)
    }
    this.#starting = false
    this.#present = new Map(seen.builds.map(({ metadata, spec }) => [metadata.name, templateHash(spec)]))
    const changing = new Set(seen.builds.filter((build) => this.#isChanging(build, seen)).map(nameOf))
    for (const [name, hash] of this.#templates) {
      // Until a build comes back to the template that crashed, another may have gone wrong in its place.
      if (!changing.has(name) || this.#present.get(name) !== hash) this.#templates.delete(name)
    }
  }

  /** `hash`: the template that it runs. */
  isOnTrial(server: GameServer, hash: string): boolean {
    if (this.#templates.get(buildNameOf(server)) !== hash) return false
    const since = this.#since.get(keyOf(server.metadata)) ?? this.world.elapsedMs
    return since + this.limits.backoffResetMs > this.world.elapsedMs + lateMs
  }

  /** Some that nobody plays on, or is to, run another template. */
  #isChanging(build: GameServerBuild, { host, servers }: Seen): boolean {
    const { handing, servers: records } = this.store()
    const hash = templateHash(build.spec)
    if (isDraining(build)) return false
    return [...servers].some(([key, server]) => {
      const { state } = server.status
      if (buildNameOf(server) !== build.metadata.name || (state !== 'StandingBy' && state !== 'Initializing'))
        return false
      return !handing.isBusy(host, key) && records.get(key)?.record.templateHash !== hash
    })
  }
}

function nameOf({ metadata }: GameServerBuild): string {
  return metadata.name
}
