/** What a changed spec does, part by part, before it is applied. Pure. */
import { shortageConditions } from '../../../rules/model/build-status.js'
import { canonical } from '../../../rules/model/values.js'
import type { BuildSpec } from '../../../rules/model/resources.js'
import type { GameServerBuild } from '../../../rules/model/wire.js'
import { templateHash } from '../../../rules/planning/rollout.js'
import { blockedReason, scaleConsequence } from './consequences.js'
import { type DiffLine, lineDiff } from './line-diff.js'
import type { Counts } from './model.js'
import { plural } from './words.js'

/** Lines that have changed, with a few around them. */
export interface Hunk {
  /** Number of its first line in the new text, from 1. */
  readonly line: number
  /** The fields of the spec that it changes. Empty if only a comma has moved. */
  readonly fields: readonly string[]
  readonly lines: readonly DiffLine[]
}

/** Of two specs as JSON with an indent of two. */
export function specHunks(before: BuildSpec, after: BuildSpec, around = 2): readonly Hunk[] {
  const changed = new Set(changedFields(before, after))
  const lines = withFields(lineDiff(textOf(before), textOf(after)))
  const isNear = lines.map((_, index) =>
    lines.slice(Math.max(0, index - around), index + around + 1).some(({ kind }) => kind !== 'same'),
  )
  const hunks: { line: number; fields: string[]; lines: DiffLine[] }[] = []
  for (const [index, { field, line, ...one }] of lines.entries()) {
    if (!isNear[index]) continue
    if (!isNear[index - 1]) hunks.push({ line, fields: [], lines: [] })
    const hunk = hunks.at(-1)
    hunk?.lines.push(one)
    if (one.kind !== 'same' && changed.has(field) && !hunk?.fields.includes(field)) hunk?.fields.push(field)
  }
  return hunks
}

export function textOf(spec: BuildSpec): string {
  return JSON.stringify(spec, null, 2)
}

/** The field of the spec that each line belongs to, and the number of the line in the new text. */
function withFields(
  lines: readonly DiffLine[],
): readonly (DiffLine & { readonly field: string; readonly line: number })[] {
  let line = 1
  const field = { before: '', after: '' }
  return lines.map((one) => {
    const [, name] = /^ {2}"([^"]+)":/.exec(one.text) ?? []
    if (name !== undefined && one.kind !== 'added') field.before = name
    if (name !== undefined && one.kind !== 'removed') field.after = name
    const numbered = { ...one, field: one.kind === 'removed' ? field.before : field.after, line }
    if (one.kind !== 'removed') line++
    return numbered
  })
}

function changedFields(before: BuildSpec, after: BuildSpec): readonly string[] {
  const [old, next] = [
    new Map<string, unknown>(Object.entries(before)),
    new Map<string, unknown>(Object.entries(after)),
  ]
  return [...new Set([...old.keys(), ...next.keys()])].filter(
    (field) => canonical([old.get(field)]) !== canonical([next.get(field)]),
  )
}

/** What servers are started with: another one replaces them. */
const started: ReadonlySet<string> = new Set(['template', 'portsToExpose', 'buildMetadata', 'counters', 'lists'])
const numbers: ReadonlySet<string> = new Set(['standingBy', 'max'])

/** A sentence for each thing that changing these fields does. */
export function effectsOf(
  fields: readonly string[],
  { spec, status }: Pick<GameServerBuild, 'spec' | 'status'>,
  after: BuildSpec,
  counts: Counts,
): readonly string[] {
  const changed = { spec: after, status: { ...status, health: healthAfter(status.crashesCount, after) } }
  const blocked = blockedReason(changed)
  const effects = new Set<string>()
  for (const field of fields) {
    if (started.has(field)) {
      if (templateHash(spec) !== templateHash(after))
        effects.add(replacement(counts, status.rollout !== undefined, blocked))
    } else if (numbers.has(field)) effects.add(scaleConsequence(counts, after, blocked))
    else if (field === 'crashesToMarkUnhealthy') effects.add(limitEffect(status, changed.status.health))
    else effects.add('Applies at once. Replaces no server.')
  }
  return [...effects]
}

function healthAfter(crashes: number, { crashesToMarkUnhealthy: limit }: BuildSpec): 'Healthy' | 'Unhealthy' {
  return limit !== undefined && crashes >= limit ? 'Unhealthy' : 'Healthy'
}

/** `isRolling`: some servers may run the new template already, because a rolling change is under way. */
function replacement({ Active, ...others }: Counts, isRolling: boolean, blocked: string | undefined): string {
  const idle = others.Pending + others.Initializing + others.StandingBy
  if (idle + Active === 0) return 'Applies to servers that are started from now on.'
  const most = isRolling ? 'up to ' : ''
  const now = blocked === undefined ? 'now, a few at a time' : `once it starts servers again (${blocked})`
  const afterMatch = `${most}${Active.toLocaleString('en')} after ${Active === 1 ? 'its match' : 'their match'}`
  if (idle === 0) return `Replaces ${afterMatch}.`
  return `Replaces ${most}${plural(idle, 'idle server')} ${now}${Active === 0 ? '' : `, and ${afterMatch}`}.`
}

function limitEffect(
  { health, crashesCount }: GameServerBuild['status'],
  next: GameServerBuild['status']['health'],
): string {
  const count = plural(crashesCount, 'crash', 'crashes')
  if (next === 'Unhealthy') return `Stops the build at once: it has had ${count} already. Matches go on.`
  return health === 'Unhealthy' ? 'The build starts servers again.' : 'Applies to further crashes. Replaces no server.'
}

/** What a rolling change waits for, in sentences. */
export function rolloutWaitsFor({ spec, status }: Pick<GameServerBuild, 'spec' | 'status'>, counts: Counts): string {
  const { outdated = 0 } = status.rollout ?? {}
  const blocked = blockedReason({ spec, status })
  if (blocked !== undefined) return `It does not go on: ${blocked}.`
  const trouble = status.conditions?.find(({ type }) => troubles.has(type))
  const starting = counts.Pending + counts.Initializing
  const sentences: string[] = []
  if (trouble) sentences.push(`New servers do not become ready (${trouble.type}): ${trouble.message}.`)
  if (starting > 0)
    sentences.push(
      `It waits until ${plural(starting, 'server')} that ${starting === 1 ? 'is' : 'are'} starting ${starting === 1 ? 'is' : 'are'} ready.`,
    )
  // Whether a server is of the version before is not known of each, only how many are.
  const idle = Math.max(0, outdated - counts.Active)
  if (idle > 0)
    sentences.push(
      `${plural(idle, 'idle server')} of the version before ${idle === 1 ? 'is' : 'are'} replaced next, a few at a time.`,
    )
  const busy = outdated - idle
  if (busy > 0)
    sentences.push(
      `It waits for the end of the match on ${idle > 0 || starting > 0 ? 'up to ' : ''}${plural(busy, 'server')}.`,
    )
  return sentences.join(' ')
}

const troubles: ReadonlySet<string> = new Set(shortageConditions)
