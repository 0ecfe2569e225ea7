/**
 * What is wrong with a fleet, as one list in one order and in the same words for everyone who shows it: `fleet.problems()`, the HTTP API, the
 * dashboard, `gamekeeper status` and the metrics. Pure.
 */
import {
  type BuildCounts,
  buildHealth,
  type ConditionType,
  conditionTypes,
  crashText,
  shortageConditions,
} from './build-status.js'
import { type Build, keyOf, type Ref, type Server } from './resources.js'
import { counted } from '../validation/problem.js'

/** `Host`: this host or what it depends on. `MaxReached`: a build has no place for a further session, and may have no more servers. */
export const problemKinds = [
  'Host',
  'Unhealthy',
  ...conditionTypes,
  'MaxReached',
  'ServersUnhealthy',
  'ServersPending',
] as const
export type ProblemKind = (typeof problemKinds)[number]

/**
 * - `down`: no further session gets a server.
 * - `degraded`: some do, or only with luck.
 * - `drained`: an operator wants it so.
 */
export const severities = ['down', 'degraded', 'drained'] as const
export type Severity = (typeof severities)[number]

/** Something that an operator should know, and do something about. */
export interface FleetProblem {
  readonly severity: Severity
  readonly kind: ProblemKind
  /** What is affected and how: "season-two is stopped: 30 crashes, 0 of 3 ready". */
  readonly title: string
  /** Why, as precisely as the fleet knows: the last crash, what the backend said. Absent if the title says it all. */
  readonly cause?: string
  /** What to do: a sentence. */
  readonly action: string
  /** When it began, wall time in ms. Absent if unknown. */
  readonly since?: number
  /** Absent if it concerns the whole fleet. */
  readonly build?: Ref
  /** The server to look at first. It may be gone; then `explain` still tells what happened to it. */
  readonly server?: Ref
}

/** A build as this rule sees it. */
export interface BuildSituation {
  readonly build: Build
  readonly counts: BuildCounts
  /** How many servers should stand by. Default: `spec.standingBy`. */
  readonly wanted?: number
  /** How many servers count to `max` besides those that stand by: Active ones, and those that are reserved or being allocated. Default: the Active ones. */
  readonly inUse?: number
  /** False if a server that has sessions already can take a further one. */
  readonly isFull: boolean
}

export interface ServerSituation {
  readonly server: Server
  /** Why a Pending server stays so until somebody mends it. Undefined while it is just starting. */
  readonly pendingReason?: string | undefined
}

export interface FleetSituation {
  /** What the health of the host says. */
  readonly host: readonly string[]
  readonly builds: readonly BuildSituation[]
  /** All servers, or only those that are `isTroubled`. */
  readonly servers: Iterable<ServerSituation>
}

/** The worst first; of the same severity in the order of `problemKinds`, and then by the names of builds. */
export function problemsOf({ host, builds, servers }: FleetSituation): readonly FleetProblem[] {
  const troubled = new Map<string, ServerSituation[]>()
  for (const one of servers) {
    if (!isTroubled(one)) continue
    const key = keyOf({ namespace: one.server.namespace, name: one.server.build })
    const known = troubled.get(key)
    if (known) known.push(one)
    else troubled.set(key, [one])
  }
  const ofBuilds = builds
    .toSorted((a, b) => compare(a.build.name, b.build.name) || compare(a.build.namespace, b.build.namespace))
    .flatMap((one) => [...problemsOfBuild(one), ...problemsOfServers(one, troubled.get(keyOf(one.build)) ?? [])])
  return [...host.map(problemOfHost), ...ofBuilds].toSorted((a, b) => rankOf(a) - rankOf(b))
}

/** Servers that are not get no problem of their own. */
export function isTroubled({ server, pendingReason }: ServerSituation): boolean {
  if (server.state === 'Terminating') return false
  return server.health === 'Unhealthy' || (server.state === 'Pending' && pendingReason !== undefined)
}

/** `3 of 6 ready`: servers that stand by, of those that should. */
export function readyText(standingBy: number, wanted: number): string {
  return `${standingBy} of ${wanted} ready`
}

function problemOfHost(title: string): FleetProblem {
  return {
    severity: 'down',
    kind: 'Host',
    title,
    action: 'Read the log of this host; gamekeeper doctor checks what it depends on.',
  }
}

function problemsOfBuild(situation: BuildSituation): readonly FleetProblem[] {
  const { build, counts, isFull, wanted = build.spec.standingBy, inUse = counts.active } = situation
  const { name, spec, conditions, crashes, recentCrashes = [] } = build
  const ready = readyText(counts.standingBy, wanted)
  const isDrained = conditions.some(({ type }) => type === 'Draining')
  const shortage = isDrained ? 'drained' : counts.standingBy === 0 && isFull ? 'down' : 'degraded'
  const ref = { namespace: build.namespace, name }
  const [lastCrash] = recentCrashes
  const crashed = lastCrash && { server: { namespace: build.namespace, name: lastCrash.server } }
  const problems: FleetProblem[] = []

  const stopped = buildHealth(build) === 'Unhealthy'
  if (stopped) {
    const crashing = conditions.find(({ type }) => type === 'Crashing')
    const cause = lastCrash ? crashText(lastCrash) : crashing?.message
    const since = crashing?.since ?? lastCrash?.at
    problems.push({
      severity: shortage,
      kind: 'Unhealthy',
      title: `${name} is stopped: ${counted(crashes, 'crash', 'crashes')}, ${ready}`,
      ...(cause !== undefined && { cause }),
      action: 'Read the log of the last crash, correct the spec, and raise crashesToMarkUnhealthy.',
      ...(since !== undefined && { since }),
      build: ref,
      ...crashed,
    })
  }
  for (const condition of conditions) {
    // It is why the build is stopped, and the fleet does not try again.
    if (stopped && condition.type === 'Crashing') continue
    // A drained build starts no servers, so nothing keeps it from that.
    if (isDrained && shortageConditions.includes(condition.type)) continue
    const { says, severity, action } = wordsFor[condition.type]
    problems.push({
      severity: severity ?? shortage,
      kind: condition.type,
      title: says(name, ready),
      cause: condition.message,
      action,
      since: condition.since,
      build: ref,
      ...(condition.type === 'Crashing' && crashed),
    })
  }
  if (spec.max > 0 && inUse >= spec.max && isFull && !isDrained)
    problems.push({
      severity: 'down',
      kind: 'MaxReached',
      title: `${name} is full: ${counted(inUse, 'server')} in use, max ${spec.max}`,
      action: 'Raise max, or wait until a match ends.',
      build: ref,
    })
  return problems
}

interface Words {
  readonly says: (name: string, ready: string) => string
  /** Absent: `down` while none is ready, else `degraded`. */
  readonly severity?: Severity
  readonly action: string
}

const wordsFor: Readonly<Record<ConditionType, Words>> = {
  Crashing: {
    says: (name, ready) => `${name} is crashing: ${ready}`,
    action: 'Read the log of a crashed server. The fleet tries again, at most a minute apart.',
  },
  CreateBlocked: {
    says: (name, ready) => `${name} cannot start servers: ${ready}`,
    action: 'Free what is missing, or correct the template. The fleet tries again, at most a minute apart.',
  },
  Disappearing: {
    says: (name, ready) => `${name} keeps losing idle servers: ${ready}`,
    action: 'Find out what ends idle servers besides the fleet: the game itself, a script, an operator, a preemption.',
  },
  LateServers: {
    says: (name, ready) => `${name} starts slowly: ${ready}`,
    action: 'Read the log of a server that is still starting. If starts are slow, raise lateStartSeconds.',
  },
  LongSession: {
    says: (name) => `${name} has a session that lasts too long`,
    severity: 'degraded',
    action: 'End the session if its match is over, or raise sessionSeconds.',
  },
  Draining: {
    says: (name) => `${name} is drained`,
    severity: 'drained',
    action: 'Resume the build when it may be allocated again.',
  },
  Clamped: {
    says: (name) => `${name} keeps fewer servers than its spec says`,
    severity: 'degraded',
    action: 'Lower standingBy, or raise max.',
  },
  Invalid: {
    says: (name, ready) => `${name} has an invalid spec and gets no new servers: ${ready}`,
    action: 'Correct the field that the message names.',
  },
  ScalingOverridden: {
    says: (name) => `${name} keeps the number that was set by hand`,
    severity: 'drained',
    action: 'Nothing: the scaling policies decide again when the time is over, or when they are changed.',
  },
  BudgetReached: {
    says: (name, ready) => `${name} gets less of the budget than it claims: ${ready}`,
    action: "Raise the fleet's budget or the build's priority, or let other builds keep fewer servers.",
  },
}

/** What an operator can do about a condition. */
export function adviceFor(type: ConditionType): string {
  return wordsFor[type].action
}

/** One problem for all servers of a build that have the same. */
function problemsOfServers(
  { build: { namespace, name, conditions } }: BuildSituation,
  servers: readonly ServerSituation[],
): readonly FleetProblem[] {
  const unhealthy = servers.filter(({ server }) => server.health === 'Unhealthy')
  const isBlocked = conditions.some(({ type }) => type === 'CreateBlocked')
  const pending = isBlocked
    ? []
    : servers.filter(({ server, pendingReason }) => server.state === 'Pending' && pendingReason !== undefined)
  const problem = (kind: ProblemKind, all: readonly ServerSituation[], says: string, action: string) => {
    const [first] = all.toSorted((a, b) => compare(a.server.name, b.server.name))
    if (!first) return []
    const { server, pendingReason } = first
    const subject = all.length === 1 ? `${server.name} of ${name} is` : `${all.length} servers of ${name} are`
    return [
      {
        severity: 'degraded' as const,
        kind,
        title: `${subject} ${says}`,
        ...(pendingReason !== undefined && { cause: pendingReason }),
        action,
        build: { namespace, name },
        server: { namespace: server.namespace, name: server.name },
      },
    ]
  }
  return [
    ...problem(
      'ServersUnhealthy',
      unhealthy,
      'Unhealthy',
      'Read its history and log. A server with a session is kept; an idle one is replaced.',
    ),
    ...problem('ServersPending', pending, 'not started yet', 'Free what the reason names, or correct the template.'),
  ]
}

function rankOf({ severity, kind }: FleetProblem): number {
  return problemKinds.length * severities.indexOf(severity) + problemKinds.indexOf(kind)
}

/** In the order of code points. */
export function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0
}
