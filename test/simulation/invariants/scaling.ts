/**
 * Invariant: what a build with scaling policies keeps ready is never below zero, nor above `max`, never falls sooner than its policies
 * allow, and is what they ask for when nothing happens any more.
 */
import { isDeepStrictEqual } from 'node:util'
import { bufferOf, openWindowOf } from '../actors/scaling-specs.js'
import type { BuildSpec } from '../../../src/rules/model/resources.js'
import type { GameServerBuild } from '../../../src/rules/model/wire.js'
import type { WebhookModel } from '../models/webhook-model.js'
import type { Host } from '../world/host.js'
import type { World } from '../world/world.js'
import { type FleetSnapshot, isInvalid, reservedIn } from './snapshot.js'

interface Seen {
  readonly host: Host
  readonly spec: BuildSpec
  readonly standingBy: number
  /** What the buffer, the webhook and `standingBy` asked for, and when, oldest first. */
  readonly asks: readonly { readonly atMs: number; readonly asked: number }[]
  readonly seenAtMs: number
  /** Since when the same window has been open, by the clock of the host. */
  readonly open: { readonly min: number; readonly sinceMs: number } | undefined
}

/** A clock that was set is noticed within a minute. */
const noticedMs = 60_000
/** With longer gaps between two looks, a host may have been suspended. */
const gapMs = 5_000
/** What a snapshot says may be older than what has just been decided. */
const slackMs = 1_000

export class ScalingInvariants {
  readonly #seen = new Map<string, Seen>()

  constructor(
    readonly world: World,
    readonly webhooks: () => WebhookModel,
  ) {}

  check(snapshot: FleetSnapshot): void {
    if (!this.world.hasPolicies) return
    for (const build of snapshot.builds) this.#checkBuild(build, snapshot)
  }

  #checkBuild(build: GameServerBuild, snapshot: FleetSnapshot): void {
    const { metadata, spec, status } = build
    const { world } = this
    const { scaling } = status
    if (!scaling || !spec.scaling || isInvalid(build)) return void this.#seen.delete(metadata.name)
    const most = Math.max(spec.max, spec.standingBy)
    if (scaling.standingBy < 0 || scaling.standingBy > most) {
      world.violate(`build ${metadata.name} is to keep ${scaling.standingBy} ready, but max is ${most}`)
    }
    if (scaling.decider === 'idle' && status.currentActive > 0) {
      world.violate(
        `build ${metadata.name} keeps none ready, as if nobody used it, but has ${status.currentActive} sessions`,
      )
    }
    const before = this.#seen.get(metadata.name)
    const asked = Math.min(spec.max, askedFor(build, snapshot, this.webhooks()))
    const { delaySeconds = 300 } = spec.scaling.scaleDown ?? {}
    const isSame = before?.host === snapshot.host && isDeepStrictEqual(before.spec, spec)
    const earlier = isSame ? before.asks : []
    if (
      isSame &&
      scaling.standingBy < before.standingBy &&
      scaling.decider !== 'override' &&
      scaling.decider !== 'idle'
    ) {
      const recent = earlier.filter(({ atMs }) => atMs > world.elapsedMs - delaySeconds * 1_000 + slackMs)
      const highest = Math.max(0, ...recent.slice(0, -1).map((one) => one.asked))
      if (scaling.standingBy < highest) {
        world.violate(
          `build ${metadata.name} fell to ${scaling.standingBy} too soon: ${highest} was asked for within ${delaySeconds} s`,
        )
      }
    }
    const open = this.#openSince(build, snapshot.host, isSame ? before : undefined)
    if (
      open &&
      world.elapsedMs - open.sinceMs > noticedMs + slackMs &&
      scaling.standingBy < Math.min(spec.max, open.min)
    ) {
      world.violate(
        `build ${metadata.name} keeps ${scaling.standingBy} ready, but a window that asks for ${open.min} has been open for a minute`,
      )
    }
    const kept = earlier.filter(({ atMs }) => atMs > world.elapsedMs - delaySeconds * 1_000 - slackMs)
    const asks =
      scaling.decider === 'override' || scaling.decider === 'idle' ? [] : [...kept, { atMs: world.elapsedMs, asked }]
    this.#seen.set(metadata.name, {
      host: snapshot.host,
      spec,
      standingBy: scaling.standingBy,
      asks,
      open,
      seenAtMs: world.elapsedMs,
    })
  }

  #openSince({ spec, status }: GameServerBuild, host: Host, before: Seen | undefined): Seen['open'] {
    const { elapsedMs } = this.world
    const { decider } = status.scaling ?? {}
    const schedule = spec.scaling?.schedule
    if (!schedule || decider === 'override' || decider === 'idle' || host.suspended) return undefined
    const window = openWindowOf(schedule, host.wallMs)
    if (!window) return undefined
    const isSeen = before?.open && elapsedMs - before.seenAtMs < gapMs
    return { min: window.min ?? 0, sinceMs: (isSeen ? before.open?.sinceMs : undefined) ?? elapsedMs }
  }
}

/** What `standingBy`, the buffer and the webhook ask for, as far as a snapshot shows. Schedules are not considered: they only ask for more. */
export function askedFor(
  { metadata, spec, status }: GameServerBuild,
  snapshot: FleetSnapshot,
  webhooks: WebhookModel,
): number {
  const used = status.currentActive + reservedIn(snapshot, metadata.name).length
  const { buffer, webhook } = spec.scaling ?? {}
  const buffered = buffer ? bufferOf(buffer, used) : 0
  return Math.max(spec.standingBy, buffered, webhook ? webhooks.asks(snapshot.host, webhook) : 0)
}
