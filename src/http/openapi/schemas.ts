/** Schemas of bodies that exist only in the HTTP layer. The schemas of resources and requests are in `rules/validation`. */
import { errorCodes } from '../../contracts/errors.js'
import { severities } from '../../rules/model/problems.js'
import { sizeLimits } from '../../rules/model/sizes.js'
import { allocation } from '../../rules/validation/allocation-schema.js'
import { buildInput, buildSpec, buildSpecInput, gameServerBuildSchema } from '../../rules/validation/build-schema.js'
import { count } from '../../rules/validation/shared-schemas.js'
import { gameServerDetailSchema, gameServerSchema } from '../../rules/validation/server-schema.js'
import type { ArraySchema, NumberSchema, ObjectSchema, Schema, StringSchema } from '../../rules/validation/schema.js'
import { endedSessionSchema, gameSessionSchema } from '../../rules/validation/session-schema.js'
import type { AnyOfSchema } from './json-schema.js'

interface ObjectOptions {
  readonly id?: string
  readonly description?: string
  /** All other properties are required. */
  readonly optional?: readonly string[]
}

function object(properties: ObjectSchema['properties'], { optional = [], ...rest }: ObjectOptions = {}): ObjectSchema {
  const required = Object.keys(properties).filter((name) => !optional.includes(name))
  return { type: 'object', ...rest, required, properties }
}

function text(description: string, examples?: readonly string[]): StringSchema {
  return { type: 'string', description, ...(examples && { examples }) }
}

function number(description: string): NumberSchema {
  return { type: 'number', description }
}

function counted(description: string): NumberSchema {
  return { ...count, description }
}

function flag(description: string): Schema {
  return { type: 'boolean', description }
}

function listOf(items: Schema, description: string): ArraySchema {
  return { type: 'array', items, description }
}

function countsBy(description: string): Schema {
  return { type: 'object', additionalProperties: count, description }
}

const sentence = { type: 'string' } as const satisfies StringSchema

// Resources.

export const gameServerBuilds: ArraySchema = { id: 'GameServerBuilds', type: 'array', items: gameServerBuildSchema }
export const gameServers: ArraySchema = { id: 'GameServers', type: 'array', items: gameServerSchema }
export const gameSessions: ArraySchema = { id: 'GameSessions', type: 'array', items: gameSessionSchema }
export const sessionOrEnd: AnyOfSchema = { id: 'SessionOrEnd', anyOf: [gameSessionSchema, endedSessionSchema] }
export const oneGameServerDetail: ArraySchema = {
  id: 'OneGameServerDetail',
  type: 'array',
  items: gameServerDetailSchema,
  minItems: 1,
  maxItems: 1,
  description: 'The detail of one server, in an array.',
}

const { buildID: _, ...changeable } = buildSpec.properties

/** Optional fields can be removed with null. */
export const buildUpdate: ObjectSchema = {
  id: 'GameServerBuildUpdate',
  type: 'object',
  unknownFields: 'refuse',
  description: 'The fields of a spec to change. `null` removes an optional field.',
  properties: Object.fromEntries(
    Object.entries(changeable).map(([name, part]) => [
      name,
      buildSpec.required.some((field) => field === name) ? part : { ...part, nullable: true as const },
    ]),
  ),
}

// Batches of allocations.

/** `request`: the schema of one allocation. */
export function batchRequest(request: ObjectSchema): ObjectSchema {
  const description = 'Several allocations, and whether all of them or none are made.'
  const requests: ArraySchema = {
    type: 'array',
    items: request,
    minItems: 1,
    maxItems: sizeLimits.batch,
    description: `At most ${sizeLimits.batch} requests, each for another session.`,
  }
  const atomic = flag('If true, all sessions get a server, or the call fails and none does. Default: false.')
  const body = object({ requests, atomic }, { id: 'BatchRequest', description, optional: ['atomic'] })
  return { ...body, unknownFields: 'refuse', expected: 'an object with requests' }
}

const details: ObjectSchema = { type: 'object', properties: {}, unknownFields: 'keep' }

const batchError = object(
  {
    code: { type: 'string', enum: errorCodes, description: 'The error code.', examples: ['none-standing-by'] },
    message: text('A sentence that says what is wrong.'),
    details: { ...details, description: 'Facts about the failure, for programs.' },
  },
  { description: 'Why the session got no server. Absent if it has one.', optional: ['details'] },
)

const batchResult = object(
  {
    sessionID: text('The sessionID of the request.'),
    allocation: { ...allocation, description: 'The server of the session. Absent if there is an error.' },
    error: batchError,
  },
  {
    id: 'BatchResult',
    description: 'What one session of a batch got: a server, or an error.',
    optional: ['allocation', 'error'],
  },
)

export const batchAnswer = object(
  { results: listOf(batchResult, 'In the order of the requests.') },
  { id: 'BatchAnswer', description: 'The result of each allocation.' },
)

// Outcomes, probes and errors.

export const done = object({ message: text('What was done.', ['Game server deleted']) }, { id: 'Done' })

export const errorBody = object(
  {
    error: text('A sentence that says what is wrong.', ['standingBy must be an integer ≥ 0, but is -1']),
    code: {
      type: 'string',
      enum: errorCodes,
      description: 'What kind of failure it is, for programs. Absent in compatibility formats.',
      examples: ['invalid'],
    },
    details: {
      ...details,
      description: 'Facts about some failures, for programs. Absent in compatibility formats.',
    },
  },
  { id: 'Error', optional: ['code', 'details'] },
)

export const health = object(
  { status: { type: 'string', const: 'ok', description: 'This process answers.' } },
  { id: 'Health' },
)

/** The answer of a host that cannot lead. */
const unable = object(
  {
    status: { type: 'string', const: 'cannot-lead', description: 'For a minute, this host could not lead.' },
    cause: text('Why this host can neither lead nor find out who does.'),
  },
  { id: 'CannotLead' },
)

export const unhealthy: AnyOfSchema = { id: 'Unhealthy', anyOf: [unable, errorBody] }

export const readiness = object(
  {
    ready: flag('True when all of the others are.'),
    leads: flag('False while another host leads the fleet, or this one is closing.'),
    store: flag('Whether the store responds.'),
    backend: flag('Whether the backend responds.'),
  },
  { id: 'Readiness' },
)

export const unready: AnyOfSchema = { id: 'Unready', anyOf: [readiness, errorBody] }

const isolationStatus = object(
  {
    mode: text('What separates games from the host and from each other.'),
    memory: text('How memory is limited, or why it is not.'),
    pids: text('How processes and threads are limited, or why they are not.'),
  },
  { id: 'IsolationStatus' },
)

export const fleetHealth = object(
  {
    ...readiness.properties,
    canLead: flag('False if this host could neither lead nor find out who does for a minute.'),
    problems: listOf(sentence, 'A sentence for each problem; empty if `ready`.'),
    isolation: isolationStatus,
    measuresUsage: flag('True if the backend measures what servers use. Absent if it does not.'),
  },
  { id: 'FleetHealth', optional: ['isolation', 'measuresUsage'] },
)

// History, statistics and activity.

const ref = object({ namespace: text('Its namespace.'), name: text('Its name.') })
const wallTime = number('Wall-clock time in ms.')

const fleetEvent: ObjectSchema = {
  ...object(
    {
      type: text('Name of the event.', ['ServerStateChanged']),
      seq: counted("Number of the event in this host's log."),
      at: wallTime,
      message: text('A sentence about what happened.'),
    },
    { id: 'FleetEvent', description: 'An event. Each type has fields of its own.' },
  ),
  unknownFields: 'keep',
}

export const serverHistory = object(
  {
    server: gameServerSchema,
    events: listOf(fleetEvent, "The server's events that are still in the log."),
    text: { ...text('The same events as text, one per line.'), mayBeEmpty: true },
  },
  { id: 'ServerHistory', optional: ['server'] },
)

const buildStats = object(
  {
    build: { ...ref, description: 'The build.' },
    standingBy: counted('From its spec.'),
    max: counted('From its spec.'),
    health: { type: 'string', enum: ['Healthy', 'Unhealthy'], description: 'Health of the build.' },
    ready: flag('Whether all the servers that should stand by do so with the current template.'),
    conditions: listOf(text('Type of a condition.', ['Crashing']), 'The conditions that are set.'),
    crashes: counted('Number of crashes since the build was created.'),
    servers: countsBy('Number of its servers in each state.'),
    templates: countsBy(
      'Number of its servers that run the current template (updated), and an earlier one (outdated).',
    ),
    players: counted('Number of players connected to its servers.'),
    waiting: counted('Number of callers waiting for one of its servers.'),
  },
  { id: 'BuildStats', description: 'Statistics of a build.' },
)

export const fleetStats = object(
  {
    leads: flag('Whether this host is the leader.'),
    heartbeats: counted('Heartbeats received since this host started.'),
    builds: listOf(buildStats, 'Each build. Empty if another host is the leader.'),
  },
  { id: 'FleetStats' },
)

const noLongerThan = "% of the minute's allocations took at most this long, in ms. Absent without allocations."

const activityMinute = object(
  {
    at: number('When the minute began: wall-clock time in ms.'),
    servers: countsBy('Number of servers in each state, at its end.'),
    wanted: counted('How many servers were wanted to stand by, at its end.'),
    players: counted('Number of connected players, at its end.'),
    waiting: counted('The highest number of waiting callers that was counted.'),
    allocations: counted('Number of allocations.'),
    refused: counted('Calls that got no server, because none was ready.'),
    p50Ms: number(`50 ${noLongerThan}`),
    p99Ms: number(`99 ${noLongerThan}`),
    crashes: counted('Number of crashes.'),
  },
  { id: 'ActivityMinute', description: 'What happened in one minute.', optional: ['p50Ms', 'p99Ms'] },
)

const activityCrash = object(
  {
    at: wallTime,
    build: { ...ref, description: 'The build.' },
    server: { ...ref, description: 'The server.' },
    reason: text('Why the server ended.'),
    message: text('A sentence about what happened.'),
    output: text('The last lines that the server has printed, joined by " | ". Absent if there are none.'),
  },
  { id: 'ActivityCrash', description: 'A crash.', optional: ['output'] },
)

export const fleetActivity = object(
  {
    since: number('When the records of this host begin: wall-clock time in ms.'),
    totals: {
      ...object({
        sessions: counted('Sessions that were given a server.'),
        serverHours: number('Hours of servers, whatever their state.'),
      }),
      description: 'Since then.',
    },
    minutes: listOf(activityMinute, 'The last 60 minutes, oldest first.'),
    crashes: listOf(
      activityCrash,
      'The latest crashes, newest first, at most 50 in all: of these minutes, and the latest ten of each build, however old.',
    ),
  },
  { id: 'FleetActivity' },
)

const byMinute = (description: string) =>
  listOf(counted('A number.'), `${description}, minute by minute; 0 after the end.`)
const durations = (description: string) => ({
  type: 'object' as const,
  additionalProperties: counted('A number.'),
  description: `${description}: how many, by bin. Bin 0 has those up to 100 ms, and each bin ends a tenth later than the one before it.`,
})

export const demandRecording = object(
  {
    build: { ...ref, description: 'The build.' },
    days: listOf(
      object(
        {
          day: text('The date in UTC, such as `2026-11-28`.'),
          asked: byMinute('Callers who came'),
          refused: byMinute('Callers who were refused at least once, because no server was ready'),
          inUse: byMinute('The most servers in use'),
          waits: durations('Waits of callers for their servers'),
          starts: durations('Times from the creation of a server until it was standing by'),
          sessions: {
            type: 'object',
            additionalProperties: durations('Lengths of sessions'),
            description: 'Lengths of sessions, by the hour in which they ended: `0` to `23`.',
          },
        },
        { id: 'DemandDay', description: 'The demand of one day, in UTC.' },
      ),
      'The days on which the build was used, oldest first.',
    ),
  },
  { id: 'DemandRecording', description: 'The demand for a build.' },
)

export const serverUsage = object(
  {
    at: wallTime,
    memoryBytes: number('Memory in use, as the system that runs it counts.'),
    cpuCores: number('CPU cores in use, since the last measurement or over half a second.'),
  },
  { id: 'ServerUsage' },
)

const fleetProblem = object(
  {
    severity: {
      type: 'string',
      enum: severities,
      description: 'down: no further session gets a server. degraded: some do. drained: an operator wants it so.',
    },
    kind: text('One machine-readable word: the type of a condition, or another one of a fixed list.', ['Unhealthy']),
    title: text('What is affected and how.', ['arena is stopped: 30 crashes, 0 of 3 ready']),
    cause: text('Why, as precisely as the fleet knows. Absent if the title says it all.'),
    action: text('What to do.'),
    since: number('When it began: wall-clock time in ms. Absent if unknown.'),
    build: { ...ref, description: 'The build. Absent if the whole fleet is concerned.' },
    server: { ...ref, description: 'The server to look at first. It may be gone.' },
  },
  { id: 'FleetProblem', description: 'Something that is wrong.', optional: ['cause', 'since', 'build', 'server'] },
)

export const fleetProblems: ArraySchema = { id: 'FleetProblems', ...listOf(fleetProblem, 'The worst first.') }

// What `compat: 'thundernetes'` changes.

const thundernetesSpec = {
  ...buildSpec,
  id: 'ThundernetesBuildSpec',
  unknownFields: 'ignore',
  required: ['buildID', 'portsToExpose', 'template'],
  properties: {
    ...buildSpec.properties,
    standingBy: { ...buildSpec.properties.standingBy, default: 0 },
    max: { ...buildSpec.properties.max, default: 0 },
    crashesToMarkUnhealthy: {
      type: 'integer',
      minimum: 0,
      default: 5,
      description: 'Crashes after which the build is Unhealthy and gets no new servers. 0 means 5.',
    },
    buildMetadata: listOf(
      object({ key: text('Unique; of a repeated key the last value counts.'), value: text('Its value.') }),
      buildSpec.properties.buildMetadata.description,
    ),
  },
} as const satisfies ObjectSchema

const thundernetesSpecInput = {
  ...thundernetesSpec,
  id: 'ThundernetesBuildSpecInput',
  required: ['buildID'],
  alternatives: buildSpecInput.alternatives,
  properties: { ...thundernetesSpec.properties, run: buildSpecInput.properties.run },
} as const satisfies ObjectSchema

export const thundernetesBuildInput: ObjectSchema = {
  ...buildInput,
  id: 'ThundernetesBuildInput',
  properties: { ...buildInput.properties, spec: thundernetesSpecInput },
}

export const thundernetesBuild: ObjectSchema = {
  ...gameServerBuildSchema,
  id: 'ThundernetesBuild',
  properties: { ...gameServerBuildSchema.properties, spec: thundernetesSpec },
}

export const gameServerBuildList = kubernetesList('GameServerBuildList', thundernetesBuild)
export const gameServerList = kubernetesList('GameServerList', gameServerSchema)
export const gameServerDetailList = kubernetesList('GameServerDetailList', gameServerDetailSchema)

function kubernetesList(id: string, items: ObjectSchema): ObjectSchema {
  const metadata: ObjectSchema = { type: 'object', properties: {}, description: 'Always empty.' }
  return object({ metadata, items: listOf(items, 'The objects.') }, { id })
}

// Applied builds.

export const appliedBuild = applied('AppliedBuild', gameServerBuildSchema)
export const appliedThundernetesBuild = applied('AppliedThundernetesBuild', thundernetesBuild)

function applied(id: string, build: ObjectSchema): ObjectSchema {
  const result: StringSchema = {
    type: 'string',
    enum: ['created', 'updated', 'unchanged'],
    description: 'What was done. `unchanged`: the build had this spec already.',
  }
  return object({ result, build }, { id })
}
