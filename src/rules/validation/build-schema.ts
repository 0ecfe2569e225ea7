/** Builds: the schemas of a GameServerBuild and of the requests that create and change one, and what a schema cannot express. Pure. */
import { checkDeclared, declaredCounters, declaredLists, labelsSchema } from '../lifecycle/server-data.js'
import { sessionsPerServer } from '../lifecycle/server-sessions.js'
import {
  type BuildSpec,
  evictions,
  type HealthLimits,
  type PodTemplateSpec,
  type RunSpec,
  terminationOrders,
} from '../model/resources.js'
import { fitsBytes, sizeLimits, utf8Bytes } from '../model/sizes.js'
import { allocationOrder, checkBuildSelection } from './allocation-schema.js'
import { checkTemplate, podTemplate, type TemplateSupport } from './pod-template.js'
import { allInOne, type Checked, invalid, isObject, type Problem, type Refused, valid } from './problem.js'
import { checkGame, gameSchema, refuseCommands, sdkSchema } from './game-schema.js'
import { checkRunPorts, expandRun, runFieldsIn, runSpec } from './run-schema.js'
import { deciders } from '../scaling/policies.js'
import { checkScaling, scalingSchema } from './scaling-schema.js'
import type { NumberSchema, ObjectSchema } from './schema.js'
import { apiVersion, buildName, count, kib, metadata, namespace, port, time } from './shared-schemas.js'
import { compileDocument, type Validator } from './validator.js'

const seconds = {
  type: 'integer',
  minimum: 1,
  expected: 'an integer ≥ 1, in seconds',
} as const satisfies NumberSchema

const healthLimits = {
  type: 'object',
  unknownFields: 'refuse',
  expected: 'an object of limits',
  description: "Limits for this build that replace the fleet's.",
  dependentRequired: { endLongSessions: ['sessionSeconds'] },
  properties: {
    firstHeartbeatSeconds: {
      ...seconds,
      description:
        "Time allowed from the start of the game's process to its first heartbeat. Default: the fleet's limit.",
    },
    silenceSeconds: {
      ...seconds,
      description: "Time without a heartbeat after which a server is Unhealthy. Default: the fleet's limit.",
    },
    lateStartSeconds: {
      ...seconds,
      description:
        "Time after which a server that is still starting is late, so that another is started beside it. Counted from the request to start it until it is standing by. Default: the fleet's limit.",
    },
    initializingSeconds: {
      ...seconds,
      description:
        "Time allowed from the start of the game's process until the server is standing by. Default: unlimited.",
    },
    sessionSeconds: {
      ...seconds,
      description: 'Session length beyond which the condition LongSession is set. Default: unlimited.',
    },
    endLongSessions: {
      type: 'boolean',
      description:
        'If true, servers whose session exceeds sessionSeconds are terminated. Requires sessionSeconds. Default: false.',
    },
  },
} as const satisfies ObjectSchema

const buildBudget = {
  type: 'object',
  unknownFields: 'refuse',
  minProperties: 1,
  expected: 'an object with guaranteed, priority or both',
  description:
    "How the build takes part in the budget that all builds of the fleet share, the fleet's option budget. Without one, it has no effect.",
  properties: {
    guaranteed: {
      ...count,
      description:
        'Number of servers for which room in the budget is kept free, also while the build does not use it. Counts at most max. Default: 0.',
      examples: [5],
    },
    priority: {
      type: 'integer',
      minimum: -1_000_000,
      maximum: 1_000_000,
      description:
        'Builds with a larger number get their servers first, and take idle ones from others. Builds with the same number share equally. Default: 0.',
      examples: [10],
    },
  },
} as const satisfies ObjectSchema

export const buildSpec = {
  id: 'GameServerBuildSpec',
  type: 'object',
  unknownFields: 'refuse',
  description: 'How many servers a build has, and what they run.',
  required: ['buildID', 'standingBy', 'max', 'portsToExpose', 'template'],
  properties: {
    buildID: {
      type: 'string',
      minLength: 1,
      maxLength: 128,
      // Games receive it in an environment variable.
      controls: 'none',
      description:
        'Identifies the build in an allocation request. Unique in the whole fleet. The API does not change it. An edit of the object on Kubernetes does: callers who wait for the old one are refused.',
      examples: ['85ffe8da-c82f-4035-86c5-9d2b5f42d6f6'],
    },
    standingBy: {
      ...count,
      description: 'Number of idle servers to keep ready. At most max.',
      examples: [2],
    },
    max: {
      ...count,
      description:
        "Maximum number of servers, idle and Active together. At most the fleet's limits.maxServersPerBuild, 100,000 by default.",
      examples: [10],
    },
    portsToExpose: {
      type: 'array',
      items: port,
      uniqueItems: true,
      expected: 'an array of ports',
      description:
        'Container ports to make public, in the order in which status.ports of a server lists them. May be empty.',
      examples: [[7777]],
    },
    crashesToMarkUnhealthy: {
      type: 'integer',
      minimum: 1,
      description: 'Number of crashes after which the build is Unhealthy and gets no new servers. Default: unlimited.',
    },
    health: healthLimits,
    template: podTemplate,
    sdk: sdkSchema,
    game: gameSchema,
    termination: {
      type: 'string',
      enum: terminationOrders,
      description:
        'How servers are terminated. HeartbeatFirst (default): a game that sends heartbeats gets Terminate in a heartbeat answer, and its termination signal near the end of its grace period. SignalFirst: the signal is sent at once, as it always is to a game without an SDK.',
    },
    claimSeconds: {
      ...seconds,
      description:
        "Ends a session if its game reports no player within this time, counted from the game's first heartbeat after the allocation. A session in which the game has reported a player does not end this way. Not for games that report no players. Default: unlimited.",
    },
    seatsPerSession: {
      type: 'integer',
      minimum: 1,
      maximum: sizeLimits.reportedPlayers,
      description: `Number of players that a session has room for, at most ${sizeLimits.reportedPlayers}. Seats of a session can then be reserved, and sessions with room can be found. A change applies to running sessions at once. Default: unknown, and seats cannot be reserved.`,
      examples: [8],
    },
    sessionsPerServer: {
      type: 'integer',
      minimum: 1,
      maximum: sizeLimits.sessionsPerServer,
      description: `How many sessions a server runs at the same time, at most ${sizeLimits.sessionsPerServer}, if its game takes several. Games with a GSDK client take one. Not with seatsPerSession, claimSeconds or health.sessionSeconds. A change starts no rolling update. Default: 1.`,
      examples: [10],
    },
    standingBySessions: {
      ...count,
      description:
        'Number of sessions for which to keep room, on running servers and on those standing by. More servers than standingBy are kept ready if that takes more, at most max. Default: 0.',
      examples: [20],
    },
    scaling: scalingSchema,
    budget: buildBudget,
    eviction: {
      type: 'string',
      enum: evictions,
      description:
        'When servers may be evicted from their node, on Kubernetes. whenIdle (default): while they have no session. never: a server is protected from its creation, and an allocation writes nothing to its pod. Applies to servers that are created after a change.',
    },
    buildMetadata: {
      type: 'object',
      keys: {
        type: 'string',
        maxBytes: sizeLimits.metadataKeyBytes,
        controls: 'none',
        expected: `at most ${sizeLimits.metadataKeyBytes} bytes of UTF-8 without control characters`,
      },
      additionalProperties: { type: 'string', mayBeEmpty: true },
      maxTotalBytes: sizeLimits.metadataBytes,
      expected: 'an object of strings',
      description: `Key-value pairs that every game server receives through its SDK. At most ${kib(sizeLimits.metadataBytes)} of UTF-8, keys included.`,
      examples: [{ region: 'north' }],
    },
    counters: declaredCounters,
    lists: declaredLists,
    labels: {
      ...labelsSchema,
      expected: 'an object of labels',
      description: `Labels of the build, by which a selector may name it. At most ${sizeLimits.buildLabels}. A change starts no rolling update.`,
      examples: [{ game: 'arena', track: 'canary' }],
    },
    order: {
      ...allocationOrder,
      description:
        'Which server an allocation that gives no order takes. A counter must be one that the spec declares. Default: first-ready.',
    },
  },
} as const satisfies ObjectSchema

/** A spec as it is sent. `run` stands for portsToExpose and template, which replace it before the build is stored. */
export const buildSpecInput = {
  ...buildSpec,
  id: 'GameServerBuildSpecInput',
  required: ['buildID', 'standingBy', 'max'],
  alternatives: [['run'], ['template', 'portsToExpose']],
  properties: { ...buildSpec.properties, run: runSpec },
} as const satisfies ObjectSchema

/** Ignores fields other than `metadata` and `spec`, so that a build can be sent back exactly as it was read. */
export const buildInput = {
  id: 'GameServerBuildInput',
  type: 'object',
  unknownFields: 'ignore',
  expected: 'a GameServerBuild object',
  description: 'A build to create. Fields other than metadata and spec are ignored.',
  required: ['metadata', 'spec'],
  properties: {
    metadata: {
      type: 'object',
      unknownFields: 'ignore',
      expected: 'an object with a name',
      description: 'Name and namespace of the build.',
      required: ['name'],
      properties: { name: buildName, namespace },
    },
    spec: buildSpecInput,
  },
} as const satisfies ObjectSchema

export const buildPatch = {
  id: 'GameServerBuildPatch',
  type: 'object',
  unknownFields: 'refuse',
  expected: 'an object with standingBy, max or both',
  description: 'New values for standingBy, max or both.',
  minProperties: 1,
  properties: {
    standingBy: { ...buildSpec.properties.standingBy, examples: [4] },
    max: { ...buildSpec.properties.max, examples: [20] },
  },
} as const satisfies ObjectSchema

export const condition = {
  id: 'Condition',
  type: 'object',
  description: 'A situation that currently affects a build and that its operator should know about.',
  required: ['type', 'status', 'reason', 'message', 'lastTransitionTime'],
  properties: {
    type: {
      type: 'string',
      description:
        'Crashing, CreateBlocked, Disappearing, LateServers, LongSession, Draining, Clamped, Invalid, ScalingOverridden or BudgetReached.',
      examples: ['Crashing'],
    },
    status: {
      type: 'string',
      const: 'True',
      description: 'Always True: a condition that no longer applies is removed.',
    },
    reason: { type: 'string', mayBeEmpty: true, description: 'One machine-readable word.', examples: ['NonZeroExit'] },
    message: { type: 'string', mayBeEmpty: true, description: 'A human-readable sentence.' },
    lastTransitionTime: { ...time, description: 'When the condition was set. RFC 3339, in UTC.' },
  },
} as const satisfies ObjectSchema

export const gameServerBuildSchema = {
  id: 'GameServerBuild',
  type: 'object',
  description: 'A group of identical game servers: how many to keep standing by, how many to allow, and what they run.',
  required: ['apiVersion', 'kind', 'metadata', 'spec', 'status'],
  properties: {
    apiVersion,
    kind: { type: 'string', const: 'GameServerBuild', description: 'The type of the object.' },
    metadata,
    spec: buildSpec,
    status: {
      type: 'object',
      description: 'The current state of the build. Written by the leader.',
      required: [
        'currentActive',
        'currentStandingBy',
        'crashesCount',
        'currentPending',
        'currentInitializing',
        'health',
        'currentStandingByReadyDesired',
      ],
      properties: {
        currentActive: { ...count, description: 'Number of servers that have a session.' },
        currentStandingBy: { ...count, description: 'Number of servers that are standing by.' },
        crashesCount: { ...count, description: 'Number of crashes since the build was created.' },
        currentPending: { ...count, description: 'Number of servers whose process is not running yet.' },
        currentInitializing: { ...count, description: 'Number of servers that are running but not standing by yet.' },
        health: {
          type: 'string',
          enum: ['Healthy', 'Unhealthy'],
          description: 'Unhealthy once crashesCount reaches crashesToMarkUnhealthy.',
        },
        currentStandingByReadyDesired: {
          type: 'string',
          pattern: '^\\d+/\\d+$',
          description:
            'currentStandingBy, and spec.standingBy or what the scaling policies have decided instead, separated by a slash.',
          examples: ['1/2'],
        },
        rollout: {
          type: 'object',
          description: 'Progress of a rolling update. Absent if no server runs an earlier template.',
          required: ['updated', 'outdated'],
          properties: {
            updated: { ...count, description: 'Number of servers that run the current template.' },
            outdated: { ...count, description: 'Number of servers that run an earlier template.' },
          },
        },
        scaling: {
          type: 'object',
          description: 'What the scaling policies have decided. Absent if the spec has none.',
          required: ['standingBy', 'decider', 'message'],
          properties: {
            standingBy: { ...count, description: 'Number of servers that are kept ready.' },
            decider: {
              type: 'string',
              enum: deciders,
              description:
                'What has decided: the number in the spec, a policy, the time without use, or the number that was set by hand.',
            },
            message: { type: 'string', description: 'A human-readable sentence: what each policy asks for.' },
          },
        },
        conditions: {
          type: 'array',
          items: condition,
          description: 'Situations that currently affect the build and that its operator should know about.',
        },
      },
    },
  },
} as const satisfies ObjectSchema

export interface BuildInput {
  readonly metadata: { readonly name: string; readonly namespace: string }
  readonly spec: BuildSpec
  /** Absent if the spec was given with `template`. For messages, which name its fields instead of the template's. */
  readonly run?: RunSpec
}

/** A spec before `run` is expanded. */
type AnySpec = Omit<BuildSpec, 'portsToExpose' | 'template'> &
  Partial<Pick<BuildSpec, 'portsToExpose' | 'template'>> & { readonly run?: RunSpec }

export interface BuildPatch {
  readonly standingBy?: number
  readonly max?: number
}

/** Names of all fields that a build's spec may have when it is sent. */
export const specFields: ReadonlySet<string> = new Set(Object.keys(buildSpecInput.properties))

export const defaultNamespace = 'default'

/** More levels than any real template has, but few enough to serialize and hash without overflowing the stack. */
const maxTemplateDepth = 64

/** Stated, because type-aware linting does not always resolve the type of so large a schema. */
const checkBuildInput: Validator<{
  readonly metadata: { readonly name: string; readonly namespace?: string }
  readonly spec: AnySpec
}> = compileDocument(buildInput)
const checkPatch = compileDocument(buildPatch)

/**
 * Reads the body of a request to create a build, and expands `run`. The result is a copy, so later changes to the body do not
 * affect it. Does not check whether the backend can run the template; `checkForBackend` does.
 */
export function readBuildInput(body: unknown): Checked<BuildInput> {
  const input = checkBuildInput(body)
  if (!input.ok) return isOfThundernetes(body) ? withThundernetesHint(input) : input
  const { name, namespace = defaultNamespace } = input.value.metadata
  const { run } = input.value.spec
  const spec = expanded(input.value.spec)
  const template = readTemplate(spec.template)
  const failed = [
    checkBounds(spec.standingBy, spec.max, 'spec.'),
    run && checkRunPorts(run),
    checkDeclared(spec),
    checkBuildSelection(spec),
    checkSeveralSessions(spec),
    spec.scaling && checkScaling(spec.scaling),
    template.ok ? checkGame(spec) : undefined,
    template.ok ? undefined : run ? inTermsOf(run, template) : template,
  ]
  const [first, ...others]: readonly Problem[] = failed.flatMap((one) => one?.problem ?? [])
  if (first) return { ok: false, problem: allInOne([first, ...others]) }
  if (!template.ok) return template
  const metadata = { name, namespace }
  return valid({ metadata, spec: copyOf(spec, template.value), ...(run && { run: structuredClone(run) }) })
}

/** True for a build as it is written for Thundernetes, whose format only hosts with the option `compat` read. */
function isOfThundernetes(body: unknown): boolean {
  if (!isObject(body) || !isObject(body['spec'])) return false
  const { titleID, buildMetadata } = body['spec']
  return titleID !== undefined || Array.isArray(buildMetadata)
}

function withThundernetesHint({ problem: { field, message } }: Refused): Refused {
  const hint = 'for a file of Thundernetes, start the host with COMPAT=thundernetes, or see docs/guides/migrating.md'
  return invalid(field, `${message}; ${hint}`)
}

/** The schema has made sure that the spec has either `run` or both other fields. */
function expanded({ run, portsToExpose = [], template = {}, ...spec }: AnySpec): BuildSpec {
  return { ...spec, ...(run ? expandRun(run) : { portsToExpose, template }) }
}

function copyOf(spec: BuildSpec, template: PodTemplateSpec): BuildSpec {
  const { buildID, standingBy, max, portsToExpose, crashesToMarkUnhealthy, health, termination, buildMetadata } = spec
  const { claimSeconds, seatsPerSession, sessionsPerServer, standingBySessions } = spec
  const { sdk, game, scaling, budget, eviction, counters, lists, labels, order } = spec
  return {
    buildID,
    standingBy,
    max,
    portsToExpose: [...portsToExpose],
    ...(crashesToMarkUnhealthy !== undefined && { crashesToMarkUnhealthy }),
    ...(health && { health: limitsOf(health) }),
    template,
    ...(sdk && { sdk }),
    ...(game && { game: structuredClone(game) }),
    ...(termination && { termination }),
    ...(claimSeconds !== undefined && { claimSeconds }),
    ...(seatsPerSession !== undefined && { seatsPerSession }),
    ...(sessionsPerServer !== undefined && { sessionsPerServer }),
    ...(standingBySessions !== undefined && { standingBySessions }),
    ...(scaling && { scaling: structuredClone(scaling) }),
    ...(budget && { budget: { ...budget } }),
    ...(eviction && { eviction }),
    ...(buildMetadata && { buildMetadata: { ...buildMetadata } }),
    ...(counters && { counters: structuredClone(counters) }),
    ...(lists && { lists: structuredClone(lists) }),
    ...(labels && { labels: { ...labels } }),
    ...(order && { order: { ...order } }),
  }
}

/** Copies the limits that are set. */
function limitsOf(health: HealthLimits): HealthLimits {
  const { lateStartSeconds, initializingSeconds, sessionSeconds, endLongSessions } = health
  const { firstHeartbeatSeconds, silenceSeconds } = health
  return {
    ...(firstHeartbeatSeconds !== undefined && { firstHeartbeatSeconds }),
    ...(silenceSeconds !== undefined && { silenceSeconds }),
    ...(lateStartSeconds !== undefined && { lateStartSeconds }),
    ...(initializingSeconds !== undefined && { initializingSeconds }),
    ...(sessionSeconds !== undefined && { sessionSeconds }),
    ...(endLongSessions !== undefined && { endLongSessions }),
  }
}

function readTemplate(template: PodTemplateSpec): Checked<PodTemplateSpec> {
  const checked = checkTemplate(template, 'pod', 'spec.template')
  if (!checked.ok) return checked
  try {
    // First, because it takes quadratic time to serialize a deep value.
    if (!isDeeper(template, maxTemplateDepth)) {
      const text = JSON.stringify(template)
      if (!fitsBytes(text, sizeLimits.templateBytes)) return templateTooLarge(utf8Bytes(text))
      const copy: unknown = JSON.parse(text)
      if (isObject(copy)) return valid(copy)
    }
  } catch {
    // The template contains a bigint. This is reported below.
  }
  return invalid(
    'spec.template',
    `must be plain JSON, at most ${maxTemplateDepth} levels deep, without circular references or bigint`,
  )
}

function templateTooLarge(bytes: number): Refused {
  return invalid('spec.template', `must have at most ${sizeLimits.templateBytes} bytes as JSON, but has ${bytes}`)
}

function isDeeper(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return false
  return levels === 0 || Object.values(value).some((part) => isDeeper(part, levels - 1))
}

/** Reads the body of a patch. Does not check that standingBy ≤ max afterwards; `checkBounds` does. */
export function readPatch(body: unknown): Checked<BuildPatch> {
  const patch = checkPatch(body)
  if (!patch.ok) return patch
  const { standingBy, max } = patch.value
  return valid({ ...(standingBy !== undefined && { standingBy }), ...(max !== undefined && { max }) })
}

/** Returns undefined if standingBy ≤ max. */
export function checkBounds(standingBy: number, max: number, prefix: '' | 'spec.'): Refused | undefined {
  if (standingBy <= max) return undefined
  return invalid(
    `${prefix}standingBy`,
    `must be at most ${prefix}max, but standingBy is ${standingBy} and max is ${max}`,
  )
}

/** Checks whether a backend can run the template and its commands, and returns the fields that the backend skips. */
export function checkForBackend(
  { spec, run }: Pick<BuildInput, 'spec' | 'run'>,
  support: TemplateSupport,
  runsCommands: boolean,
): Checked<{ skipped: readonly string[] }> {
  const refused = spec.game && !runsCommands ? refuseCommands(spec.game) : undefined
  if (refused) return refused
  const checked = checkTemplate(spec.template, support, 'spec.template')
  if (run === undefined) return checked
  if (!checked.ok) return inTermsOf(run, checked)
  return valid({ skipped: checked.value.skipped.map((field) => runFieldsIn(field, run)) })
}

/** A problem of the expanded template, at the field of `run` that causes it. */
function inTermsOf(run: RunSpec, { problem }: Refused): Refused {
  return invalid(runFieldsIn(problem.field, run), runFieldsIn(problem.message, run))
}

type Spec = Pick<BuildSpec, 'sessionsPerServer' | 'seatsPerSession' | 'claimSeconds' | 'health'>

/**
 * Games report their players for each server, so where a server has several sessions, no one knows in which of them a player is. And a
 * session that takes too long must not end the others on its server.
 */
function checkSeveralSessions(spec: Spec): Refused | undefined {
  const perServer = sessionsPerServer(spec)
  if (perServer === 1) return undefined
  const together = `cannot be used with spec.sessionsPerServer ${perServer}`
  if (spec.seatsPerSession !== undefined) {
    return invalid('spec.seatsPerSession', `${together}, because games report players by server and not by session`)
  }
  if (spec.claimSeconds !== undefined) {
    return invalid('spec.claimSeconds', `${together}, because games report players by server and not by session`)
  }
  if (spec.health?.sessionSeconds !== undefined) {
    return invalid('spec.health.sessionSeconds', `${together}, because it would end the server's other sessions too`)
  }
  return undefined
}
