/** Chooses the idle servers of a build that are replaced because they have been standing by for too long. Synchronous. */
import type { Now } from '../../rules/scaling/policies.js'
import { windowAt } from '../../rules/scaling/windows.js'
import type { BuildEntry, ServerEntry } from '../state/entries.js'
import type { Inventory } from '../state/inventory.js'
import { maxServersOf, serverCount } from '../state/queries.js'
import { cached, type ScalingState } from '../state/scaling-state.js'

/** How often the ages of idle servers are looked at. */
const reviewMs = 60_000

export const noneAged: ReadonlySet<ServerEntry> = new Set()

export class IdleAges {
  readonly #inventory: Pick<Inventory, 'setAged'>

  constructor(inventory: Pick<Inventory, 'setAged'>) {
    this.#inventory = inventory
  }

  /** Chooses a tenth of the ready servers at a time, but at least one. Returns the time in ms after which to choose again. */
  review(build: BuildEntry, scaling: ScalingState, now: Now): number | undefined {
    const { maxIdleAgeSeconds, replaceWindow } = scaling.source.scaling ?? {}
    const inventory = this.#inventory
    scaling.replaceWindow =
      replaceWindow &&
      cached(scaling.replaceWindow, scaling.source, now.wall, () =>
        windowAt(replaceWindow, replaceWindow.timeZone, now.wall),
      )
    const window = scaling.replaceWindow?.value
    if (maxIdleAgeSeconds === undefined || window?.isOpen === false) {
      this.spare(scaling)
      return window && maxIdleAgeSeconds !== undefined ? until(window.until, now.wall) : undefined
    }
    const isOld = ({ bucket, standingBySince = Infinity }: ServerEntry) =>
      (bucket === 'ready' || bucket === 'outdatedReady') && standingBySince + maxIdleAgeSeconds * 1_000 <= now.elapsed
    const left = [...scaling.aged].filter(isOld)
    if (left.length < scaling.aged.size) inventory.setAged(scaling, new Set(left))
    const restMs = scaling.agesDueAt - now.elapsed
    if (restMs > 0) return restMs
    scaling.agesDueAt = now.elapsed + reviewMs
    // Without room for another, one would end before the next is ready.
    const hasRoom =
      serverCount(build) - build.buckets.terminating.size < maxServersOf(build) && build.withoutPort.size === 0
    const { ready, outdatedReady } = build.buckets
    const most = hasRoom ? Math.max(1, Math.floor((ready.size + outdatedReady.size) / 10)) : 0
    inventory.setAged(scaling, new Set([...left, ...[...ready].filter(isOld).toSorted(byAge)].slice(0, most)))
    return reviewMs
  }

  /** Replaces none for its age. */
  spare(scaling: ScalingState): void {
    if (scaling.aged.size > 0) this.#inventory.setAged(scaling, noneAged)
  }
}

function byAge({ standingBySince: a = 0 }: ServerEntry, { standingBySince: b = 0 }: ServerEntry): number {
  return a - b
}

function until(time: number, now: number): number | undefined {
  return Number.isFinite(time) ? Math.max(1, time - now) : undefined
}
