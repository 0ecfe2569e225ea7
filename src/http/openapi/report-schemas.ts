/** Schemas for the results of calls that the service description does not have: applied builds, statistics, health, history. */
import { buildSpec, gameServerBuild } from '../../rules/schemas/build.js'
import { count } from '../../rules/schemas/common.js'
import type { ObjectSchema } from '../../rules/schemas/schema.js'
import { gameServer } from '../../rules/schemas/server.js'
import { readiness } from './schemas.js'
import { thundernetesBuild } from './thundernetes.js'

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
