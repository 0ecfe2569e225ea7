/**
 * Exactly the surplus is scaled down: after a step in which idle servers were ended as too many, there are still as many
 * as the build and its waiting callers want. A change of template may take a batch from them, and no more.
 */
import type { EndingReason } from '../../../rules/resources.js'
import { keyOf } from '../../../rules/resources.js'
import { rolloutBatch } from '../../../rules/rollout.js'
import type { GameServerBuild } from '../../../rules/wire.js'
import type { StoreModel } from '../store-model.js'
import type { World } from '../world.js'
import { buildNameOf, type Seen } from './seen.js'
import type { Waiting } from './waiting.js'

export class Surplus {
  /** Names of builds by what befell them since the last look. */
  readonly #scaledDown = new Set<string>()
  readonly #replaced = new Set<string>()

  constructor(
    readonly world: World,
    readonly parts: () => { readonly store: StoreModel; readonly waiting: Waiting },
  ) {}

  ended(build: string, reason: EndingReason): void {
    if (reason === 'ScaledDown') this.#scaledDown.add(build)
    if (reason === 'Replaced') this.#replaced.add(build)
  }

  check(seen: Seen): void {
    for (const build of seen.builds) {
      const { name } = build.metadata
      if (this.#scaledDown.has(name) || this.#replaced.has(name)) this.#checkBuild(build, seen)
    }
    this.#scaledDown.clear()
    this.#replaced.clear()
  }

  #checkBuild({ spec, status, metadata }: GameServerBuild, seen: Seen): void {
    const reserved = new Set(this.parts().store.handing.reserved(seen.host))
    const held = [...seen.servers.values()].filter(
      (server) =>
        buildNameOf(server) === metadata.name &&
        server.status.state === 'StandingBy' &&
        reserved.has(keyOf(server.metadata)),
    ).length
    const active = status.currentActive + held
    const idle = status.currentPending + status.currentInitializing + status.currentStandingBy - held
    const wanted = Math.min(spec.standingBy + this.parts().waiting.patient(seen.host, spec.buildID), spec.max - active)
    const borrowed = this.#replaced.has(metadata.name) ? rolloutBatch(wanted) : 0
    if (idle >= wanted - borrowed) return
    this.world.breach(`more than the surplus was ended: build ${metadata.name} wants ${wanted} idle and has ${idle}`)
  }
}
