/**
 * Invariant: what a build with scaling policies keeps ready is never below zero, nor above `max`, rises at once, falls neither sooner nor
 * faster than its policies allow, and is what they ask for when nothing happens any more.
 */
import { isDeepStrictEqual } from 'node:util'
import { bufferOf, openWindowOf } from '../actors/scaling-specs.js'
import type { BufferPolicy } from '../../../src/rules/scaling/policies.js'
import type { BuildSpec } from '../../../src/rules/model/resources.js'
import type { GameServerBuild } from '../../../src/rules/model/wire.js'
import type { WebhookModel } from '../models/webhook-model.js'
import type { Host } from '../world/host.js'
import type { World } from '../world/world.js'
import { type FleetSnapshot, isInvalid, reservedIn } from './snapshot.js'

interface Seen {
  readonly host: Host
  /** Which of its terms. */
  readonly term: number
  readonly spec: BuildSpec
  readonly standingBy: number
  /** What the buffer, the webhook and `standingBy` asked for, and when, oldest first. */
  readonly asks: readonly { readonly atMs: number; readonly asked: number }[]
  /** To which numbers it has risen, and when, at the earliest. Oldest first. */
  readonly rises: readonly { readonly atMs: number; readonly to: number }[]
  /** False while it was set by hand, or nobody uses the build: then it falls at once. */
  readonly isFollowed: boolean
  readonly seenAtMs: number
  /** Since when it has been less than was asked for, and the least that was. Undefined: it is not. */
  readonly short: { readonly sinceMs: number; readonly least: number } | undefined
  /** Since when the same window has been open, or none, by the clock of the host. Undefined if the schedule does not count. */
  readonly open: { readonly window: BufferPolicy | undefined; readonly sinceMs: number } | undefined
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
    const known = this.#seen.get(metadata.name)
    const isSame =
      known?.host === snapshot.host && known.term === snapshot.host.terms && isDeepStrictEqual(known.spec, spec)
    const before = isSame ? known : undefined
    const { delaySeconds = 300 } = spec.scaling.scaleDown ?? {}
    const isRecent = ({ atMs }: { readonly atMs: number }) => atMs > world.elapsedMs - delaySeconds * 1_000 - slackMs
    const isFollowed = scaling.decider !== 'override' && scaling.decider !== 'idle'
    const asked = Math.min(spec.max, askedFor(build, snapshot, this.webhooks()))
    const asks = [...(before?.asks ?? []).filter(isRecent), { atMs: world.elapsedMs, asked }]
    const isShort = isFollowed && scaling.standingBy < asked && !snapshot.host.suspended
    const hasRisen = before?.isFollowed === true && scaling.standingBy > before.standingBy
    const rises = [
      ...(before?.rises ?? []).filter(isRecent),
      ...(hasRisen ? [{ atMs: before.seenAtMs, to: scaling.standingBy }] : []),
    ]
    const seen: Seen = {
      ...{ host: snapshot.host, term: snapshot.host.terms, spec, isFollowed },
      standingBy: scaling.standingBy,
      asks: isFollowed ? asks : [],
      rises: isFollowed ? rises : [],
      short: isShort ? shortSince(before, asked, world.elapsedMs) : undefined,
      open: this.#openSince(build, snapshot.host, before),
      seenAtMs: world.elapsedMs,
    }
    this.#seen.set(metadata.name, seen)
    if (isFollowed) this.#checkFollowed(metadata.name, seen, before)
    this.#checkSchedule(build, seen)
  }

  /** It rises at once, and falls after the delay, a few at a time. */
  #checkFollowed(
    name: string,
    { standingBy, asks, rises, short, spec, seenAtMs }: Seen,
    before: Seen | undefined,
  ): void {
    const { world } = this
    const { delaySeconds = 300, perMinute = 10 } = spec.scaling?.scaleDown ?? {}
    const within = <T extends { readonly atMs: number }>(all: readonly T[], ms: number) =>
      all.filter(({ atMs }) => atMs > seenAtMs - ms)
    const delayMs = delaySeconds * 1_000 - slackMs
    if (before && standingBy < before.standingBy) {
      const highest = Math.max(
        0,
        ...within(asks, delayMs)
          .slice(0, -1)
          .map(({ asked }) => asked),
      )
      if (standingBy < highest) {
        world.violate(`build ${name} fell to ${standingBy} too soon: ${highest} was asked for within ${delaySeconds} s`)
      }
    }
    const risen = Math.max(0, ...within(rises, delayMs).map(({ to }) => to))
    if (standingBy < risen) {
      world.violate(
        `build ${name} flaps: it fell to ${standingBy} within ${delaySeconds} s after it had risen to ${risen}`,
      )
    }
    if (before?.isFollowed) {
      const step = Math.ceil(perMinute / 60)
      const steps = 1 + Math.floor((seenAtMs - before.seenAtMs) / Math.ceil((60_000 * step) / perMinute))
      if (standingBy < before.standingBy - steps * step) {
        world.violate(
          `build ${name} fell from ${before.standingBy} to ${standingBy} at once, but may by ${perMinute} a minute`,
        )
      }
    }
    if (short && seenAtMs - short.sinceMs > slackMs) {
      world.violate(
        `build ${name} keeps ${standingBy} ready, but for more than a second, ${short.least} have been asked for`,
      )
    }
  }

  #checkSchedule({ metadata, spec, status }: GameServerBuild, { open, standingBy }: Seen): void {
    const { world } = this
    if (!open || world.elapsedMs - open.sinceMs <= noticedMs + slackMs) return
    const { min = 0 } = open.window ?? {}
    if (standingBy < Math.min(spec.max, min)) {
      world.violate(
        `build ${metadata.name} keeps ${standingBy} ready, but a window that asks for ${min} has been open for a minute`,
      )
    }
    if (!open.window && status.scaling?.decider === 'schedule') {
      world.violate(`build ${metadata.name} keeps ${standingBy} ready by a window that has been closed for a minute`)
    }
  }

  #openSince({ spec, status }: GameServerBuild, host: Host, before: Seen | undefined): Seen['open'] {
    const { elapsedMs } = this.world
    const { decider } = status.scaling ?? {}
    const schedule = spec.scaling?.schedule
    if (!schedule || decider === 'override' || decider === 'idle' || host.suspended) return undefined
    const window = openWindowOf(schedule, host.wallMs)
    const isSeen = before?.open && isDeepStrictEqual(before.open.window, window) && elapsedMs - before.seenAtMs < gapMs
    return { window, sinceMs: (isSeen ? before.open?.sinceMs : undefined) ?? elapsedMs }
  }
}

function shortSince(before: Seen | undefined, asked: number, elapsedMs: number): Seen['short'] {
  const known = before && elapsedMs - before.seenAtMs < gapMs ? before.short : undefined
  return { sinceMs: known?.sinceMs ?? elapsedMs, least: Math.min(asked, known?.least ?? asked) }
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
