/** Schema of a build's template: a Kubernetes PodTemplateSpec. Describes only the fields that gamekeeper itself reads. */
import { sizeLimits } from '../model/sizes.js'
import { count, kib, port } from './common.js'
import type { ArraySchema, ObjectSchema, QuantitySchema, StringSchema } from './schema.js'

/** One line. */
const line = { type: 'string', nullable: true, controls: 'none' } as const satisfies StringSchema

/** Arguments may contain whole scripts, so line breaks are allowed. No system accepts a NUL. */
export const strings = {
  type: 'array',
  items: { type: 'string', mayBeEmpty: true, maxBytes: sizeLimits.argumentBytes, controls: 'whitespace' },
  expected: 'an array of strings',
} as const satisfies ArraySchema

export const environmentName = {
  type: 'string',
  pattern: '^[^=\\x00]+$',
  maxBytes: sizeLimits.environmentNameBytes,
  controls: 'none',
  expected: 'the name of an environment variable, without "="',
} as const satisfies StringSchema

export const environmentValue = {
  type: 'string',
  maxBytes: sizeLimits.environmentValueBytes,
  controls: 'whitespace',
  description: `Value of the variable. \`$(NAME)\` inserts the value of another variable. At most ${kib(sizeLimits.environmentValueBytes)} of UTF-8, also with these values inserted. Default: empty.`,
} as const satisfies StringSchema

export const protocols = ['TCP', 'UDP', 'SCTP'] as const

const quantity = {
  type: ['string', 'number'],
  nullable: true,
  pattern: '^\\+?(\\d+(\\.\\d*)?|\\.\\d+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?\\d+)?$',
  minimum: 0,
  expected: 'a quantity like 2, "500m" or "256Mi"',
  description: 'A Kubernetes quantity.',
  examples: ['500m', '256Mi', 2],
} as const satisfies QuantitySchema

const environmentVariable = {
  type: 'object',
  unknownFields: 'keep',
  required: ['name'],
  properties: {
    name: { ...environmentName, description: 'Name of the variable.' },
    value: { ...environmentValue, nullable: true },
  },
} as const satisfies ObjectSchema

const containerPort = {
  type: 'object',
  unknownFields: 'keep',
  required: ['containerPort'],
  properties: {
    name: {
      ...line,
      maxBytes: sizeLimits.nameBytes,
      description: 'Name by which the game looks up the port. Different port numbers must have different names.',
    },
    containerPort: { ...port, description: 'The number that the game listens on.' },
    protocol: {
      type: 'string',
      nullable: true,
      enum: protocols,
      description: 'Transport protocol. Default: TCP.',
    },
  },
} as const satisfies ObjectSchema

const container = {
  id: 'Container',
  type: 'object',
  description: 'A Kubernetes Container.',
  unknownFields: 'keep',
  properties: {
    name: { ...line, maxBytes: sizeLimits.nameBytes, description: 'Name of the container.' },
    image: {
      ...line,
      maxBytes: sizeLimits.imageBytes,
      description: 'Image to run. Required by the Docker backend, ignored by the process backend.',
    },
    workingDir: { ...line, maxBytes: sizeLimits.pathBytes, description: 'Working directory of the game.' },
    command: {
      ...strings,
      nullable: true,
      description: 'Program and first arguments. Required by the process backend.',
    },
    args: {
      ...strings,
      nullable: true,
      description: `Arguments that follow the command. At most ${kib(sizeLimits.commandBytes)} of UTF-8 together with the command, with references expanded.`,
    },
    env: {
      type: 'array',
      nullable: true,
      items: environmentVariable,
      expected: 'an array of objects',
      description: `Environment variables of the game. At most ${kib(sizeLimits.environmentBytes)} of UTF-8 in names and expanded values.`,
    },
    ports: {
      type: 'array',
      nullable: true,
      items: containerPort,
      expected: 'an array of objects',
      description: 'Names and protocols of ports. portsToExpose determines which ports are public.',
    },
    stdin: {
      type: 'boolean',
      nullable: true,
      description:
        'Whether the standard input of the game is kept open, so that lines can be sent to it. Default: false.',
    },
    tty: {
      type: 'boolean',
      nullable: true,
      description: 'Whether the game has a terminal. Not supported by the process backend. Default: false.',
    },
    resources: {
      type: 'object',
      nullable: true,
      unknownFields: 'keep',
      description: 'Compute resources for the container.',
      properties: {
        limits: {
          type: 'object',
          nullable: true,
          additionalProperties: quantity,
          expected: 'an object of quantities',
          description: 'Maximum amount of each resource that the container may use.',
          examples: [{ cpu: '500m', memory: '256Mi' }],
        },
      },
    },
  },
} as const satisfies ObjectSchema

export const podTemplate = {
  id: 'PodTemplateSpec',
  type: 'object',
  unknownFields: 'keep',
  required: ['spec'],
  expected: 'a PodTemplateSpec object',
  description: `A Kubernetes PodTemplateSpec, at most 64 levels deep and ${kib(sizeLimits.templateBytes)} large as JSON. Its first container is the game server, unless an annotation names another. Which fields have an effect depends on the backend.`,
  examples: [{ spec: { containers: [{ name: 'game', image: 'registry.example.com/arena:1' }] } }],
  properties: {
    spec: {
      type: 'object',
      unknownFields: 'keep',
      required: ['containers'],
      expected: 'an object with containers',
      description: 'A Kubernetes PodSpec.',
      properties: {
        containers: {
          type: 'array',
          items: container,
          minItems: 1,
          expected: 'an array of at least one container',
          description: 'The containers of the pod; at least one.',
        },
        terminationGracePeriodSeconds: {
          ...count,
          nullable: true,
          description:
            'Grace period in seconds: how long a server may take to exit when it is terminated. Default: 30.',
        },
      },
    },
  },
} as const satisfies ObjectSchema
