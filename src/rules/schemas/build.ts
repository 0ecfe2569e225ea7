/** Schemas of a GameServerBuild, and of the requests that create and change one. */
import { evictions, terminationOrders } from '../model/resources.js'
import { sizeLimits } from '../model/sizes.js'
import { apiVersion, buildName, count, kib, metadata, namespace, port, time } from './common.js'
import { podTemplate } from './pod-template.js'
import { runSpec } from './run.js'
import { allocationOrder } from './selection.js'
import { declaredCounters, declaredLists, labels } from './server-data.js'
import type { NumberSchema, ObjectSchema } from './schema.js'

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
    termination: {
      type: 'string',
      enum: terminationOrders,
      description:
        'How servers are terminated. HeartbeatFirst (default): a game that sends heartbeats gets Terminate in a heartbeat answer, and its termination signal near the end of its grace period. SignalFirst: the signal is sent at once.',
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
      ...labels,
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
      description: 'Crashing, CreateBlocked, Disappearing, LateServers, LongSession, Draining, Clamped or Invalid.',
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

export const gameServerBuild = {
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
          description: 'currentStandingBy and spec.standingBy, separated by a slash.',
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
        conditions: {
          type: 'array',
          items: condition,
          description: 'Situations that currently affect the build and that its operator should know about.',
        },
      },
    },
  },
} as const satisfies ObjectSchema
