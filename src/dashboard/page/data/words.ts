/** Words for what the fleet reports. Pure. */
import { adviceFor as adviceOfRule, type ProblemKind } from '../../../rules/model/problems.js'
import { type ConditionType, conditionTypes, type ServerState } from '../../../rules/model/resources.js'
import type { ActivityCrash } from '../../../contracts/observer.js'

export const stateWords: Readonly<Record<ServerState, string>> = {
  Pending: 'pending',
  Initializing: 'initializing',
  StandingBy: 'standing by',
  Active: 'active',
  Terminating: 'ending',
}

const known: ReadonlySet<string> = new Set(conditionTypes)

function isKnown(type: string): type is ConditionType {
  return known.has(type)
}

/** What an operator can do about a condition. Empty for one that this page does not know. `isStopped`: the build is at its crash limit. */
export function adviceFor(type: string, isStopped = false): string {
  if (isStopped && type === 'Crashing')
    return 'The fleet starts no more servers of this build until crashesToMarkUnhealthy is raised.'
  return isKnown(type) ? adviceOfRule(type) : ''
}

/** Problems in a word, beside the name of their build. */
export const kindWords: Readonly<Record<ProblemKind, string>> = {
  Host: 'host',
  Unhealthy: 'stopped',
  Crashing: 'crashing',
  CreateBlocked: 'CreateBlocked',
  Disappearing: 'Disappearing',
  LateServers: 'LateServers',
  LongSession: 'LongSession',
  Draining: 'drained',
  Clamped: 'Clamped',
  Invalid: 'Invalid',
  ScalingOverridden: 'set by hand',
  BudgetReached: 'budget reached',
  MaxReached: 'full',
  ServersUnhealthy: 'unhealthy servers',
  ServersPending: 'servers pending',
}

const steps = [
  [1_000, 's'],
  [60_000, 'min'],
  [3_600_000, 'h'],
  [86_400_000, 'd'],
] as const

/** `12 s`, `5 min`, `3 h`, `2 d`. */
export function duration(ms: number): string {
  const [size, unit] = steps.findLast(([each]) => ms >= each) ?? steps[0]
  return `${Math.max(0, Math.floor(ms / size))} ${unit}`
}

/** `3 ms`, `1.5 s`. */
export function milliseconds(ms: number): string {
  return ms < 1_000 ? `${Math.round(ms)} ms` : `${(ms / 1_000).toFixed(1)} s`
}

/** A crash's message without the server's name, which is beside it. */
export function causeIn({ message, server }: Pick<ActivityCrash, 'message' | 'server'>): string {
  const prefix = `${server.name} is terminating: `
  return message.startsWith(prefix) ? message.slice(prefix.length) : message
}

/** Without the path of a log on the host, which the page shows itself. */
export function withoutLogPath(text: string): string {
  return text.replaceAll(/[:;,] see \S+\.log\b/g, '')
}

export function plural(count: number, one: string, many = `${one}s`): string {
  return `${count.toLocaleString('en')} ${count === 1 ? one : many}`
}

export interface TextPart {
  readonly text: string
  readonly isName: boolean
}

const partOfName = /[\p{L}\p{N}_-]/u

/** Splits a text at the first mention of each name. A name within a longer one, as `arena` in `arena-x7k2p`, is no mention. */
export function partsAt(text: string, names: readonly string[]): readonly TextPart[] {
  const found = names
    .map((name) => ({ name, at: mentionOf(text, name) }))
    .filter(({ at }) => at >= 0)
    .toSorted((a, b) => a.at - b.at)
  const parts: TextPart[] = []
  let done = 0
  for (const { name, at } of found) {
    if (at < done) continue
    parts.push({ text: text.slice(done, at), isName: false }, { text: name, isName: true })
    done = at + name.length
  }
  return [...parts, { text: text.slice(done), isName: false }].filter((part) => part.text !== '')
}

function mentionOf(text: string, name: string): number {
  if (name === '') return -1
  for (let at = text.indexOf(name); at >= 0; at = text.indexOf(name, at + 1)) {
    const around = [text[at - 1], text[at + name.length]]
    if (!around.some((char) => char !== undefined && partOfName.test(char))) return at
  }
  return -1
}

const mebibyte = 1_048_576

/** `0.42 cores, 136 MiB`. */
export function usageText({
  cpuCores,
  memoryBytes,
}: {
  readonly cpuCores: number
  readonly memoryBytes: number
}): string {
  const memory = memoryBytes / mebibyte
  const size = memory >= 1_024 ? `${(memory / 1_024).toFixed(1)} GiB` : `${Math.round(memory)} MiB`
  return `${cpuCores.toFixed(2)} cores, ${size}`
}
