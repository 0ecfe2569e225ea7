/** What is known of crashes: how many, from when on, and those with the same cause together. Pure. */
import type { ActivityCrash, FleetActivity } from '../../../contracts/observer.js'
import { keyOf } from '../../../rules/model/resources.js'
import type { GameServerBuild } from '../../../rules/model/wire.js'
import { crashesInHour, type Minute, minuteMs } from './model.js'
import { causeIn, withoutLogPath } from './words.js'

const hourMs = 60 * minuteMs

/**
 * From when on the host's records of the last hour tell everything, wall time in ms. Undefined if they do so for the whole hour: a host that
 * began to lead before it, or a fleet whose builds are all younger than the records.
 */
export function unknownBefore(
  activity: Pick<FleetActivity, 'since'> | undefined,
  builds: Iterable<Pick<GameServerBuild, 'metadata'>>,
  now: number,
): number | undefined {
  if (activity === undefined || activity.since <= now - hourMs + minuteMs) return undefined
  for (const { metadata } of builds)
    if (Date.parse(metadata.creationTimestamp ?? '') < activity.since) return activity.since
  return undefined
}

/** Number of crashes in the last hour, at least: those that the host has counted, and those before it of which the store keeps a record. */
export function crashesKnown(
  activity: FleetActivity | undefined,
  minutes: readonly Pick<Minute, 'at' | 'crashes'>[],
  now: number,
): number {
  // The events are here sooner than the host's records are read again, but its log may not go back an hour.
  const seen = crashesInHour(minutes, now)
  if (activity === undefined) return seen
  const { since, crashes } = activity
  const kept = crashes.filter(({ at }) => at < since && at > now - hourMs).length
  return kept + Math.max(seen, crashesInHour(activity.minutes, now))
}

export interface CrashGroup {
  /** `exit 3`, or the cause as the fleet says it. */
  readonly title: string
  /** What the last of them printed about it. */
  readonly detail: string | undefined
  /** Newest first. */
  readonly crashes: readonly [ActivityCrash, ...ActivityCrash[]]
}

/**
 * Crashes of a build with the same cause and the same last words, whichever server had them. The group with the newest crash is first. `crashes`: newest
 * first.
 */
export function crashGroups(crashes: readonly ActivityCrash[]): readonly CrashGroup[] {
  const groups = new Map<string, [ActivityCrash, ...ActivityCrash[]]>()
  /** By cause, the group that those of which no output is known belong to. */
  const newest = new Map<string, string>()
  for (const crash of crashes) {
    const words = lastWords(crash)
    const cause = causeKey(crash)
    const key = `${cause}\n${words === undefined ? '' : withoutNumbers(words)}`
    if (words !== undefined && !newest.has(cause)) newest.set(cause, key)
  }
  for (const crash of crashes) {
    const words = lastWords(crash)
    const cause = causeKey(crash)
    const own = `${cause}\n${words === undefined ? '' : withoutNumbers(words)}`
    const key = words === undefined ? (newest.get(cause) ?? own) : own
    const known = groups.get(key)
    if (known) known.push(crash)
    else groups.set(key, [crash])
  }
  return [...groups.values()].map((all) => ({
    title: titleOf(all[0]),
    detail: all.map(lastWords).find((words) => words !== undefined),
    crashes: all,
  }))
}

function causeKey(crash: ActivityCrash): string {
  return `${keyOf(crash.build)} ${crash.reason} ${withoutNumbers(withoutName(causeIn(crash), crash), /\d{4,}/g)}`
}

function titleOf(crash: ActivityCrash): string {
  const cause = withoutName(withoutLogPath(causeIn(crash)), crash)
  const [, code, rest = ''] = /^the process exited with code (\d+)(?: before it was ready)?(.*)$/s.exec(cause) ?? []
  return code === undefined ? cause : `exit ${code}${rest}`
}

/** The line that says most, without what differs from server to server. Undefined if there is none. */
function lastWords(crash: ActivityCrash): string | undefined {
  const lines = (crash.output ?? '').split(' | ').map((line) => line.trim())
  const telling = lines.filter((line) => line !== '' && !noise.test(line))
  const line = telling.findLast((one) => trouble.test(one)) ?? telling.at(-1)
  return line === undefined ? undefined : withoutName(line.replace(timeAtStart, ''), crash)
}

/** Frames of a stack, brackets that are left, and the version that Node.js prints in the end. */
const noise = /^(?:at |Node\.js v|[\s{}()[\]^~]*$)/
const trouble = /error|exception|fatal|panic|abort|assert|fail|cannot|could not|\bE[A-Z]{3,}\b/i
const timeAtStart = /^\[?(?:\d{4}-\d\d-\d\d[T ])?\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?\]?\s*/

function withoutName(text: string, { server }: ActivityCrash): string {
  return text.replaceAll(server.name, '…')
}

/** Process ids, ports, addresses in memory and the like are no other cause. */
function withoutNumbers(text: string, numbers = /\b(?:0x)?[\da-f]*\d[\da-f]*\b/gi): string {
  return text.replaceAll(numbers, '#')
}
