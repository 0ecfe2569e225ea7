/**
 * Invariant: in the runs with a budget, the fleet starts no server beyond it; and when nothing happens any more, no idle server exceeds it, and
 * no build lacks a server for which it has room.
 */
import { standingByOf } from '../../../src/rules/model/build-status.js'
import type { GameServer, GameServerBuild } from '../../../src/rules/model/wire.js'
import type { World } from '../world/world.js'
import { type FleetSnapshot, isDraining, isInvalid, reservedIn } from './snapshot.js'

export class BudgetInvariants {
  /** Names of servers that the leader has created since the last check. */
  readonly #created = new Set<string>()
  /** Names of servers that were there at the last check. */
  #known: ReadonlySet<string> = new Set()
  #total = 0

  constructor(readonly world: World) {}

  created(server: string): void {
    if (this.world.budget !== undefined) this.#created.add(server)
  }

  check({ servers }: FleetSnapshot): void {
    const { budget } = this.world
    if (budget === undefined) return
    const live = [...servers.values()].filter(isLive)
    // A host may find servers that it did not know, such as those of a leader before it.
    const isFound = ({ metadata: { name } }: GameServer) => !this.#known.has(name) && !this.#created.has(name)
    const total = live.length - live.filter(isFound).length
    if (live.some(({ metadata }) => this.#created.has(metadata.name)) && total > Math.max(budget, this.#total))
      this.world.violate(`more servers than the budget: the fleet has ${total}, and may have ${budget}`)
    this.#created.clear()
    this.#known = new Set(live.map(({ metadata }) => metadata.name))
    this.#total = live.length
  }
}

/** Returns what is wrong with a fleet that has settled. `mayGrow`: whether the build could start servers. */
export function settledBudgetProblem(
  budget: number,
  snapshot: FleetSnapshot,
  mayGrow: (build: GameServerBuild) => boolean,
): string | undefined {
  const live = [...snapshot.servers.values()].filter(isLive)
  const used = live.filter(({ status }) => status.state === 'Active' || status.reservedUntil !== undefined).length
  if (live.length > Math.max(budget, used)) return `${live.length} servers, ${used} of them in use, exceed the budget`
  const entitled = snapshot.builds.map((build) =>
    Math.max(
      Math.min(build.spec.budget?.guaranteed ?? 0, build.spec.max),
      idleOf(build, snapshot) + usedOf(build, snapshot),
    ),
  )
  if (entitled.reduce((sum, count) => sum + count, 0) >= budget) return undefined
  const lacking = snapshot.builds.find((build) => mayGrow(build) && idleOf(build, snapshot) < wantedOf(build, snapshot))
  return lacking && `build ${lacking.metadata.name} lacks servers for which the budget has room`
}

function usedOf({ metadata, status }: GameServerBuild, snapshot: FleetSnapshot): number {
  return status.currentActive + reservedIn(snapshot, metadata.name).length
}

function idleOf({ metadata, status }: GameServerBuild, snapshot: FleetSnapshot): number {
  const { currentPending, currentInitializing, currentStandingBy } = status
  return currentPending + currentInitializing + currentStandingBy - reservedIn(snapshot, metadata.name).length
}

function wantedOf(build: GameServerBuild, snapshot: FleetSnapshot): number {
  if (isDraining(build) || isInvalid(build)) return 0
  return Math.max(0, Math.min(standingByOf(build), build.spec.max - usedOf(build, snapshot)))
}

function isLive({ status }: GameServer): boolean {
  return status.state !== 'Terminating'
}
