/**
 * Exactly the surplus is scaled down: of the servers that are there when some end as too many, there stay as many as the
 * build wants for itself, for who waits, and for who is expected back, without those that are created anew in the same
 * step. A change of template may take a batch from them, and no more; and one that never gets ready, or crashes, does not
 * consume the servers of before.
 */
import type { EventOf } from '../../../contracts/events.js'
import type { FleetLimits } from '../../../contracts/options.js'
import { keyOf } from '../../../rules/model/resources.js'
import { rolloutBatch } from '../../../rules/planning/rollout.js'
import { templateHash } from '../../../rules/planning/template-hash.js'
import type { GameServer, GameServerBuild } from '../../../rules/model/wire.js'
import type { StoreModel } from '../store-model.js'
import type { World } from '../world.js'
import { Crashed } from './crashed.js'
import { buildNameOf, isDisputed, type Seen } from './seen.js'
import type { Waiting } from './waiting.js'

/** What befell a build since the last look. */
interface Happened {
  scaledDown: boolean
  replaced: boolean
  ended: number
  readonly created: Set<string>
}

export class Surplus {
  /** By name. */
  #happened = new Map<string, Happened>()
  #starting = true
  readonly #crashed: Crashed

  constructor(
    readonly world: World,
    limits: Pick<FleetLimits, 'backoffResetMs'>,
    readonly parts: () => { readonly store: StoreModel; readonly waiting: Waiting },
  ) {
    this.#crashed = new Crashed(world, limits, () => this.parts().store)
  }

  /** `ran`: its process runs, or did; what never came to that is no server to lose. */
  ended({ build, crash, reason, server }: EventOf<'ServerEnding'>, ran: boolean): void {
    const happened = this.#of(build.name)
    happened.ended++
    if (reason === 'ScaledDown') happened.scaledDown = true
    if (reason === 'Replaced' && ran) happened.replaced = true
    if (crash) this.#crashed.ended(build, server)
  }

  /** What a new leader does before it can be looked at goes by what it finds on the way. */
  elected(): void {
    this.#starting = true
    this.#crashed.elected()
  }

  created(build: string, server: string): void {
    this.#of(build).created.add(server)
  }

  check(seen: Seen): void {
    this.#crashed.look(seen)
    for (const build of seen.builds) {
      const { name } = build.metadata
      const happened = this.#happened.get(name)
      // Two that claim one buildID: whose callers they are cannot be told from outside.
      if (isDisputed(build, seen.builds)) continue
      if (!this.#starting && (happened?.scaledDown || happened?.replaced)) this.#checkBuild(build, happened, seen)
    }
    this.#happened = new Map()
    this.#starting = false
  }

  #of(build: string): Happened {
    const known = this.#happened.get(build)
    if (known) return known
    const happened = { scaledDown: false, replaced: false, ended: 0, created: new Set<string>() }
    this.#happened.set(build, happened)
    return happened
  }

  #checkBuild({ spec, status, metadata }: GameServerBuild, { replaced, ended, created }: Happened, seen: Seen): void {
    const { name } = metadata
    const { store, waiting } = this.parts()
    const reserved = new Set(store.handing.reserved(seen.host))
    const idle: GameServer[] = []
    const held: GameServer[] = []
    let letGo = 0
    let goneBusy = 0
    for (const server of seen.servers.values()) {
      if (buildNameOf(server) !== name) continue
      const key = keyOf(server.metadata)
      if (server.status.state === 'Terminating' && store.handing.isBusy(seen.host, key)) goneBusy++
      if (!isIdle(server)) continue
      if (store.handing.wasLetGo(key)) letGo++
      if (reserved.has(key)) held.push(server)
      else if (!created.has(server.metadata.name)) idle.push(server)
    }
    // For each that was let go, one that is held now may have been free when some were found to be too many.
    idle.push(...held.splice(0, letGo))
    const active = status.currentActive + held.length
    // Whoever was about to get a server that has ended is not back in the waiting room before its record is written.
    const callers = waiting.patient(seen.host, spec.buildID) + waiting.expected(seen.host, spec.buildID)
    const waits = Math.max(0, callers - goneBusy)
    const wanted = Math.min(spec.standingBy + waits, spec.max - active)
    const spared = wanted - (replaced ? rolloutBatch(wanted) : 0)
    if (idle.length < spared) {
      this.world.breach(`more than the surplus was ended: build ${name} wants ${wanted} idle and had ${idle.length}`)
    }
    // What `max` takes is taken, whatever is on its way.
    if (!replaced || idle.length + active + ended > spec.max) return
    const hash = templateHash(spec)
    const good = idle.filter((server) => {
      const record = store.servers.get(keyOf(server.metadata))?.record
      // Whose record is still on its way may run either template.
      if (record?.templateHash !== hash) return true
      return server.status.state === 'StandingBy' && !this.#crashed.isOnTrial(server, hash)
    })
    if (good.length < spared) {
      this.world.breach(`a change of template went too far: build ${name} wants ${wanted}, and had ${good.length} left`)
    }
  }
}

function isIdle({ status }: GameServer): boolean {
  return status.state === 'Pending' || status.state === 'Initializing' || status.state === 'StandingBy'
}
