/** Assigns a behavior to each game server in a run, and decides whether the run includes a build whose servers cannot run. */
import type { InstanceSpec } from '../../../src/contracts/backend.js'
import type { FleetLimits } from '../../../src/contracts/options.js'
import { brokenVersion, crashingVersion } from '../actors/build-specs.js'
import { type UnrunnableBuild, unrunnableBuildName } from '../context.js'
import { CreateRate } from '../invariants/create-rate.js'
import type { World } from '../world/world.js'
import { createRefusals } from './backend-model.js'
import { type GameBehavior, unusualBehaviors } from './unusual-behaviors.js'

const brokenVersionBehaviors: readonly GameBehavior[] = ['never-ready', 'never-ready', 'crashes-at-start', 'silent']

export class GameBehaviors {
  readonly unrunnable: UnrunnableBuild | undefined
  readonly #behaviors: readonly GameBehavior[]

  constructor(
    readonly world: World,
    limits: FleetLimits,
  ) {
    this.#behaviors = someBehaviors(world)
    this.unrunnable = world.chance(0.3) ? someUnrunnableBuild(world, limits) : undefined
  }

  behaviorOf({ build, sdk }: InstanceSpec): GameBehavior {
    if (!this.world.faultsEnabled) return 'normal'
    // An exit before readiness is a failed start, whatever its code.
    if (build.name === unrunnableBuildName)
      return (this.unrunnable?.standingBy ?? 0) % 2 === 0 ? 'exits-at-start' : 'crashes-at-start'
    if (sdk.buildMetadata['version'] === crashingVersion) return 'crashes-when-ready'
    if (sdk.buildMetadata['version'] === brokenVersion) return this.world.oneOf(brokenVersionBehaviors) ?? 'silent'
    return this.world.oneOf(this.#behaviors) ?? 'normal'
  }

  /** True if creates of this build get no answer. */
  createHangs(build: string): boolean {
    return build === unrunnableBuildName && this.unrunnable?.kind === 'hangs' && this.world.faultsEnabled
  }

  /** Returns the reason why this instance cannot be created, or undefined if it can. */
  refusal({ build }: InstanceSpec): string | undefined {
    if (build.name !== unrunnableBuildName || !this.unrunnable) return undefined
    this.unrunnable.createRate.created()
    if (this.createHangs(build.name)) return undefined
    return this.unrunnable.kind === 'refused' && this.world.faultsEnabled ? createRefusals.noSuchImage : undefined
  }
}

function someUnrunnableBuild(world: World, limits: FleetLimits): UnrunnableBuild {
  const standingBy = world.between(1, 4)
  const kind = world.oneOf(['crashes', 'refused', 'hangs'] as const) ?? 'crashes'
  return { kind, standingBy, createRate: new CreateRate(world, standingBy, limits) }
}

function someBehaviors(world: World): readonly GameBehavior[] {
  const normal: GameBehavior[] = Array.from({ length: 6 }, () => 'normal')
  return [...normal, ...unusualBehaviors.filter(() => world.chance(0.4))]
}
