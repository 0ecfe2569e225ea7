/** Schemas of bodies that exist only in the HTTP layer. The schemas of resources and requests are in `rules/schemas`. */
import { errorCodes } from '../../contracts/errors.js'
import { sizeLimits } from '../../rules/model/sizes.js'
import { allocation, type allocationRequest, type guidAllocationRequest } from '../../rules/schemas/allocation.js'
import { buildInput, buildSpec, buildSpecInput, gameServerBuild } from '../../rules/schemas/build.js'
import { count } from '../../rules/schemas/common.js'
import { gameServerDetail } from '../../rules/schemas/detail.js'
import type { ArraySchema, ObjectSchema, StringSchema } from '../../rules/schemas/schema.js'
import { gameServer } from '../../rules/schemas/server.js'
import { endedSession, gameSession } from '../../rules/schemas/session.js'
import type { AnyOfSchema } from './json-schema.js'

export const gameServerBuilds = {
  id: 'GameServerBuilds',
  type: 'array',
  items: gameServerBuild,
} as const satisfies ArraySchema

export const gameServers = { id: 'GameServers', type: 'array', items: gameServer } as const satisfies ArraySchema

export const oneGameServerDetail = {
  id: 'OneGameServerDetail',
  type: 'array',
  items: gameServerDetail,
  minItems: 1,
  maxItems: 1,
  description: 'The detail of one server, in an array.',
} as const satisfies ArraySchema

const sentence = { type: 'string' } as const satisfies StringSchema

export const done = {
  id: 'Done',
  type: 'object',
  required: ['message'],
  properties: { message: { ...sentence, description: 'What was done.', examples: ['Game server deleted'] } },
} as const satisfies ObjectSchema

export const errorBody = {
  id: 'Error',
  type: 'object',
  required: ['error'],
  properties: {
    error: {
      ...sentence,
      description: 'A sentence that says what is wrong.',
      examples: ['standingBy must be an integer ≥ 0, but is -1'],
    },
    code: {
      type: 'string',
      enum: errorCodes,
      description: 'What kind of failure it is, for programs. Absent in compatibility formats.',
      examples: ['invalid'],
    },
    details: {
      type: 'object',
      properties: {},
      unknownFields: 'keep',
      description: 'Facts about some failures, for programs. Absent in compatibility formats.',
    },
  },
} as const satisfies ObjectSchema

export const health = {
  id: 'Health',
  type: 'object',
  required: ['status'],
  properties: { status: { type: 'string', const: 'ok', description: 'This process answers.' } },
} as const satisfies ObjectSchema

/** The answer of a host that cannot lead. */
export const unable = {
  id: 'CannotLead',
  type: 'object',
  required: ['status', 'cause'],
  properties: {
    status: { type: 'string', const: 'cannot-lead', description: 'For a minute, this host could not lead.' },
    cause: { type: 'string', description: 'Why this host can neither lead nor find out who does.' },
  },
} as const satisfies ObjectSchema

export const unhealthy = { id: 'Unhealthy', anyOf: [unable, errorBody] } as const satisfies AnyOfSchema

export const readiness = {
  id: 'Readiness',
  type: 'object',
  required: ['ready', 'leads', 'store', 'backend'],
  properties: {
    ready: { type: 'boolean', description: 'True when all of the others are.' },
    leads: { type: 'boolean', description: 'False while another host leads the fleet, or this one is closing.' },
    store: { type: 'boolean', description: 'Whether the store responds.' },
    backend: { type: 'boolean', description: 'Whether the backend responds.' },
  },
} as const satisfies ObjectSchema

export const unready = { id: 'Unready', anyOf: [readiness, errorBody] } as const satisfies AnyOfSchema

export const gameSessions = { id: 'GameSessions', type: 'array', items: gameSession } as const satisfies ArraySchema
export const sessionOrEnd = { id: 'SessionOrEnd', anyOf: [gameSession, endedSession] } as const satisfies AnyOfSchema

const batchResult = {
  id: 'BatchResult',
  type: 'object',
  description: 'What one session of a batch got: a server, or an error.',
  required: ['sessionID'],
  properties: {
    sessionID: { type: 'string', description: 'The sessionID of the request.' },
    allocation: { ...allocation, description: 'The server of the session. Absent if there is an error.' },
    error: {
      type: 'object',
      description: 'Why the session got no server. Absent if it has one.',
      required: ['code', 'message'],
      properties: {
        code: { type: 'string', enum: errorCodes, description: 'The error code.', examples: ['none-standing-by'] },
        message: { type: 'string', description: 'A sentence that says what is wrong.' },
        details: {
          type: 'object',
          properties: {},
          unknownFields: 'keep',
          description: 'Facts about the failure, for programs.',
        },
      },
    },
  },
} as const satisfies ObjectSchema

export const batchAnswer = {
  id: 'BatchAnswer',
  type: 'object',
  description: 'The result of each allocation.',
  required: ['results'],
  properties: { results: { type: 'array', items: batchResult, description: 'In the order of the requests.' } },
} as const satisfies ObjectSchema

/** `request`: the schema of one allocation. */
export function batchRequest(request: typeof allocationRequest | typeof guidAllocationRequest): ObjectSchema {
  return {
    id: 'BatchRequest',
    type: 'object',
    unknownFields: 'refuse',
    expected: 'an object with requests',
    description: 'Several allocations, and whether all of them or none are made.',
    required: ['requests'],
    properties: {
      requests: {
        type: 'array',
        items: request,
        minItems: 1,
        maxItems: sizeLimits.batch,
        description: `At most ${sizeLimits.batch} requests, each for another session.`,
      },
      atomic: {
        type: 'boolean',
        description: 'If true, all sessions get a server, or the call fails and none does. Default: false.',
      },
    },
  }
}

/* What `compat: 'thundernetes'` changes. */

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
    buildMetadata: {
      type: 'array',
      description: buildSpec.properties.buildMetadata.description,
      items: {
        type: 'object',
        required: ['key', 'value'],
        properties: {
          key: { type: 'string', description: 'Unique; of a repeated key the last value counts.' },
          value: { type: 'string', description: 'Its value.' },
        },
      },
    },
  },
} as const satisfies ObjectSchema

const thundernetesSpecInput = {
  ...thundernetesSpec,
  id: 'ThundernetesBuildSpecInput',
  required: ['buildID'],
  alternatives: buildSpecInput.alternatives,
  properties: { ...thundernetesSpec.properties, run: buildSpecInput.properties.run },
} as const satisfies ObjectSchema

export const thundernetesBuildInput = {
  ...buildInput,
  id: 'ThundernetesBuildInput',
  properties: { ...buildInput.properties, spec: thundernetesSpecInput },
} as const satisfies ObjectSchema

export const thundernetesBuild = {
  ...gameServerBuild,
  id: 'ThundernetesBuild',
  properties: { ...gameServerBuild.properties, spec: thundernetesSpec },
} as const satisfies ObjectSchema

export const gameServerBuildList = listOf('GameServerBuildList', thundernetesBuild)
export const gameServerList = listOf('GameServerList', gameServer)
export const gameServerDetailList = listOf('GameServerDetailList', gameServerDetail)

/** A list in the format that Kubernetes uses. */
function listOf(id: string, items: ObjectSchema): ObjectSchema {
  return {
    id,
    type: 'object',
    required: ['metadata', 'items'],
    properties: {
      metadata: { type: 'object', properties: {}, description: 'Always empty.' },
      items: { type: 'array', items, description: 'The objects.' },
    },
  }
}

/* Results that the service description does not have: applied builds, statistics, health, history. */

export const appliedBuild = applied('AppliedBuild', gameServerBuild)
export const appliedThundernetesBuild = applied('AppliedThundernetesBuild', thundernetesBuild)

function applied(id: string, build: ObjectSchema): ObjectSchema {
  return {
    id,
    type: 'object',
    required: ['result', 'build'],
    properties: {
      result: {
        type: 'string',
        enum: ['created', 'updated', 'unchanged'],
        description: 'What was done. `unchanged`: the build had this spec already.',
      },
      build,
    },
  }
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

const ref = {
  type: 'object',
  required: ['namespace', 'name'],
  properties: {
    namespace: { type: 'string', description: 'Its namespace.' },
    name: { type: 'string', description: 'Its name.' },
  },
} as const satisfies ObjectSchema

const fleetEvent = {
  id: 'FleetEvent',
  type: 'object',
  unknownFields: 'keep',
  description: 'An event. Each type has fields of its own.',
  required: ['type', 'seq', 'at', 'message'],
  properties: {
    type: { type: 'string', description: 'Name of the event.', examples: ['ServerStateChanged'] },
    seq: { ...count, description: "Number of the event in this host's log." },
    at: { type: 'number', description: 'Wall-clock time in ms.' },
    message: { type: 'string', description: 'A sentence about what happened.' },
  },
} as const satisfies ObjectSchema

export const serverHistory = {
  id: 'ServerHistory',
  type: 'object',
  required: ['events', 'text'],
  properties: {
    server: gameServer,
    events: { type: 'array', items: fleetEvent, description: "The server's events that are still in the log." },
    text: { type: 'string', mayBeEmpty: true, description: 'The same events as text, one per line.' },
  },
} as const satisfies ObjectSchema

const buildStats = {
  id: 'BuildStats',
  type: 'object',
  description: 'Statistics of a build.',
  required: [
    'build',
    'standingBy',
    'max',
    'health',
    'ready',
    'conditions',
    'crashes',
    'servers',
    'templates',
    'players',
    'waiting',
  ],
  properties: {
    build: { ...ref, description: 'The build.' },
    standingBy: { ...count, description: 'From its spec.' },
    max: { ...count, description: 'From its spec.' },
    health: { type: 'string', enum: ['Healthy', 'Unhealthy'], description: 'Health of the build.' },
    ready: {
      type: 'boolean',
      description: 'Whether all the servers that should stand by do so with the current template.',
    },
    conditions: {
      type: 'array',
      items: { type: 'string', description: 'Type of a condition.', examples: ['Crashing'] },
      description: 'The conditions that are set.',
    },
    crashes: { ...count, description: 'Number of crashes since the build was created.' },
    servers: { type: 'object', additionalProperties: count, description: 'Number of its servers in each state.' },
    templates: {
      type: 'object',
      additionalProperties: count,
      description: 'Number of its servers that run the current template (updated), and an earlier one (outdated).',
    },
    players: { ...count, description: 'Number of players connected to its servers.' },
    waiting: { ...count, description: 'Number of callers waiting for one of its servers.' },
  },
} as const satisfies ObjectSchema

export const fleetStats = {
  id: 'FleetStats',
  type: 'object',
  required: ['leads', 'heartbeats', 'builds'],
  properties: {
    leads: { type: 'boolean', description: 'Whether this host is the leader.' },
    heartbeats: { ...count, description: 'Heartbeats received since this host started.' },
    builds: { type: 'array', items: buildStats, description: 'Each build. Empty if another host is the leader.' },
  },
} as const satisfies ObjectSchema

const wallTime = { type: 'number', description: 'Wall-clock time in ms.' } as const
const noLongerThan = "% of the minute's allocations took at most this long, in ms. Absent without allocations."

const activityMinute = {
  id: 'ActivityMinute',
  type: 'object',
  description: 'What happened in one minute.',
  required: ['at', 'servers', 'players', 'waiting', 'allocations', 'crashes'],
  properties: {
    at: { ...wallTime, description: 'When the minute began: wall-clock time in ms.' },
    servers: {
      type: 'object',
      additionalProperties: count,
      description: 'Number of servers in each state, at its end.',
    },
    players: { ...count, description: 'Number of connected players, at its end.' },
    waiting: { ...count, description: 'The highest number of waiting callers that was counted.' },
    allocations: { ...count, description: 'Number of allocations.' },
    p50Ms: { type: 'number', description: `50 ${noLongerThan}` },
    p99Ms: { type: 'number', description: `99 ${noLongerThan}` },
    crashes: { ...count, description: 'Number of crashes.' },
  },
} as const satisfies ObjectSchema

const activityCrash = {
  id: 'ActivityCrash',
  type: 'object',
  description: 'A crash.',
  required: ['at', 'build', 'server', 'reason', 'message'],
  properties: {
    at: wallTime,
    build: { ...ref, description: 'The build.' },
    server: { ...ref, description: 'The server.' },
    reason: { type: 'string', description: 'Why the server ended.' },
    message: { type: 'string', description: 'A sentence about what happened.' },
  },
} as const satisfies ObjectSchema

export const fleetActivity = {
  id: 'FleetActivity',
  type: 'object',
  required: ['since', 'minutes', 'crashes'],
  properties: {
    since: { ...wallTime, description: 'When the records of this host begin: wall-clock time in ms.' },
    minutes: { type: 'array', items: activityMinute, description: 'The last 60 minutes, oldest first.' },
    crashes: {
      type: 'array',
      items: activityCrash,
      description: 'The latest 50 crashes of these minutes, newest first.',
    },
  },
} as const satisfies ObjectSchema

const isolationStatus = {
  id: 'IsolationStatus',
  type: 'object',
  required: ['mode', 'memory', 'pids'],
  properties: {
    mode: { type: 'string', description: 'What separates games from the host and from each other.' },
    memory: { type: 'string', description: 'How memory is limited, or why it is not.' },
    pids: { type: 'string', description: 'How processes and threads are limited, or why they are not.' },
  },
} as const satisfies ObjectSchema

export const fleetHealth = {
  ...readiness,
  id: 'FleetHealth',
  required: [...readiness.required, 'canLead', 'problems'],
  properties: {
    ...readiness.properties,
    canLead: {
      type: 'boolean',
      description: 'False if this host could neither lead nor find out who does for a minute.',
    },
    problems: {
      type: 'array',
      items: { type: 'string' },
      description: 'A sentence for each problem; empty if `ready`.',
    },
    isolation: isolationStatus,
  },
} as const satisfies ObjectSchema
