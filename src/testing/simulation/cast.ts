/** Which game server has which character in a story, and which build none of them can run. */
import type { InstanceSpec } from '../../contracts/backend.js'
import type { FleetLimits } from '../../contracts/options.js'
import { type Character, oddCharacters } from './game-model.js'
import { Creations } from './invariants/creations.js'
import { brokenVersion, crashingVersion } from './operators.js'
import { type Doomed, doomedBuild } from './scene.js'
import type { World } from './world.js'

const brokenCharacters: readonly Character[] = ['never-ready', 'never-ready', 'crashes-at-start', 'mute']

export class Cast {
  readonly doomed: Doomed | undefined
  readonly #characters: readonly Character[]

  constructor(
    readonly world: World,
    limits: FleetLimits,
  ) {
    this.#characters = someCharacters(world)
    this.doomed = world.chance(0.3) ? doom(world, limits) : undefined
  }

  character({ build, sdk }: InstanceSpec): Character {
    if (!this.world.faulty) return 'good'
    if (build.name === doomedBuild) return 'crashes-at-start'
    if (sdk.buildMetadata['version'] === crashingVersion) return 'crashes-when-ready'
    if (sdk.buildMetadata['version'] === brokenVersion) return this.world.oneOf(brokenCharacters) ?? 'mute'
    return this.world.oneOf(this.#characters) ?? 'good'
  }

  /** Why it cannot be started; undefined when it can. */
  refusal({ build }: InstanceSpec): string | undefined {
    if (build.name !== doomedBuild || !this.doomed) return undefined
    this.doomed.creations.asked()
    return this.doomed.kind === 'refused' && this.world.faulty ? 'no such image' : undefined
  }
}

function doom(world: World, limits: FleetLimits): Doomed {
  const standingBy = world.between(1, 3)
  const kind = world.chance(0.5) ? 'crashes' : 'refused'
  return { kind, standingBy, creations: new Creations(world, standingBy, limits) }
}

function someCharacters(world: World): readonly Character[] {
  const good: Character[] = Array.from({ length: 6 }, () => 'good')
  return [...good, ...oddCharacters.filter(() => world.chance(0.4))]
}
