/** Schemas of a GameServerBuild, and of the requests that create and change one. */
import { apiVersion, buildName, count, metadata, namespace, port, time } from './common.js'
import { podTemplate } from './pod-template.js'
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
  description: "Limits of this build in place of the fleet's.",
  dependentRequired: { endLongSessions: ['sessionSeconds'] },
  properties: {
    firstHeartbeatSeconds: {
      ...seconds,
      description: "Time from the start of the game's process to its first heartbeat. Default: the fleet's.",
    },
    silenceSeconds: {
      ...seconds,
      description: "Time without a heartbeat after which a server is Unhealthy. Default: the fleet's.",
    },
    initializingSeconds: {
      ...seconds,
      description: "Time from the start of the game's process to standing by. Default: unlimited.",
    },
    sessionSeconds: {
      ...seconds,
      description: 'A longer session sets the condition LongSession. Default: unlimited.',
    },
    endLongSessions: {
      type: 'boolean',
      description: 'Terminates servers whose session exceeds sessionSeconds, which it requires. Default: false.',
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
      description: 'Names the build in an allocation. Unique in the whole fleet, and never changes.',
      examples: ['85ffe8da-c82f-4035-86c5-9d2b5f42d6f6'],
    },
    standingBy: {
      ...count,
      description: 'How many idle servers to keep ready. At most max.',
      examples: [2],
    },
    max: {
      ...count,
      description: 'The most servers there may be, idle and Active together.',
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
      description: 'Crashes after which the build is Unhealthy and gets no new servers. Default: never.',
    },
    health: healthLimits,
    template: podTemplate,
    buildMetadata: {
      type: 'object',
      additionalProperties: { type: 'string', mayBeEmpty: true },
      expected: 'an object of strings',
      description: 'Key-value pairs that every game server gets through its SDK.',
      examples: [{ region: 'north' }],
    },
  },
} as const satisfies ObjectSchema

/** Fields outside `spec` are ignored, so that a build can be sent back as it was read. */
export const buildInput = {
  id: 'GameServerBuildInput',
  type: 'object',
  unknownFields: 'ignore',
  expected: 'a GameServerBuild object',
  description: 'A build to create. Fields outside spec, such as status, are ignored.',
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
    spec: buildSpec,
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
  description: 'Something that is true of a build now and that its operator should know.',
  required: ['type', 'status', 'reason', 'message', 'lastTransitionTime'],
  properties: {
    type: {
      type: 'string',
      description: 'Crashing, CreateBlocked, LongSession, Draining, Clamped or Invalid.',
      examples: ['Crashing'],
    },
    status: { type: 'string', const: 'True', description: 'A condition that is no longer true is removed.' },
    reason: { type: 'string', mayBeEmpty: true, description: 'One word for programs.', examples: ['NonZeroExit'] },
    message: { type: 'string', mayBeEmpty: true, description: 'A sentence for people.' },
    lastTransitionTime: { ...time, description: 'When it became true. RFC 3339, in UTC.' },
  },
} as const satisfies ObjectSchema

export const gameServerBuild = {
  id: 'GameServerBuild',
  type: 'object',
  description: 'A fleet of game servers: how many stand by, how many there may be, and what each of them runs.',
  required: ['apiVersion', 'kind', 'metadata', 'spec', 'status'],
  properties: {
    apiVersion,
    kind: { type: 'string', const: 'GameServerBuild', description: 'The type of the object.' },
    metadata,
    spec: buildSpec,
    status: {
      type: 'object',
      description: 'The present state of the build. Written by the host that leads the fleet.',
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
        currentActive: { ...count, description: 'Servers with a session.' },
        currentStandingBy: { ...count, description: 'Servers that are ready to be allocated.' },
        crashesCount: { ...count, description: 'Crashes since the build was created.' },
        currentPending: { ...count, description: 'Servers whose process does not run yet.' },
        currentInitializing: { ...count, description: 'Servers that run and are not ready yet.' },
        health: {
          type: 'string',
          enum: ['Healthy', 'Unhealthy'],
          description: 'Unhealthy once crashesCount has reached crashesToMarkUnhealthy.',
        },
        currentStandingByReadyDesired: {
          type: 'string',
          pattern: '^\\d+/\\d+$',
          description: 'currentStandingBy and spec.standingBy, separated by a slash.',
          examples: ['1/2'],
        },
        rollout: {
          type: 'object',
          description: 'Progress of a rolling update. Absent when no server runs an earlier template.',
          required: ['updated', 'outdated'],
          properties: {
            updated: { ...count, description: 'Servers that run the present template.' },
            outdated: { ...count, description: 'Servers that run an earlier template.' },
          },
        },
        conditions: {
          type: 'array',
          items: condition,
          description: 'What is true of the build now and its operator should know.',
        },
      },
    },
  },
} as const satisfies ObjectSchema
