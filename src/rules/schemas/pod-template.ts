/** Schema of a build's template: a Kubernetes PodTemplateSpec. Describes only the fields that gamekeeper itself reads. */
import { count, port } from './common.js'
import type { ArraySchema, ObjectSchema, QuantitySchema, StringSchema } from './schema.js'

const text = { type: 'string', nullable: true } as const satisfies StringSchema

const strings = {
  type: 'array',
  nullable: true,
  items: { type: 'string', mayBeEmpty: true },
  expected: 'an array of strings',
} as const satisfies ArraySchema

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
    name: {
      type: 'string',
      pattern: '^[^=\\x00]+$',
      expected: 'the name of an environment variable, without "="',
      description: 'Name of the variable.',
    },
    value: {
      ...text,
      description: 'Value of the variable. `$(NAME)` inserts the value of another variable. Default: empty.',
    },
  },
} as const satisfies ObjectSchema

const containerPort = {
  type: 'object',
  unknownFields: 'keep',
  required: ['containerPort'],
  properties: {
    name: {
      ...text,
      description: 'Name by which the game looks up the port. Different port numbers must have different names.',
    },
    containerPort: { ...port, description: 'The number that the game listens on.' },
    protocol: {
      type: 'string',
      nullable: true,
      enum: ['TCP', 'UDP', 'SCTP'],
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
    name: { ...text, description: 'Name of the container.' },
    image: { ...text, description: 'Image to run. Required by the Docker backend, ignored by the process backend.' },
    workingDir: { ...text, description: 'Working directory of the game.' },
    command: { ...strings, description: 'Program and first arguments. Required by the process backend.' },
    args: { ...strings, description: 'Arguments that follow the command.' },
    env: {
      type: 'array',
      nullable: true,
      items: environmentVariable,
      expected: 'an array of objects',
      description: 'Environment variables of the game.',
    },
    ports: {
      type: 'array',
      nullable: true,
      items: containerPort,
      expected: 'an array of objects',
      description: 'Names and protocols of ports. portsToExpose determines which ports are public.',
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
  description:
    'A Kubernetes PodTemplateSpec, at most 64 levels deep. Its first container is the game server, unless an annotation names another. Which fields have an effect depends on the backend.',
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
          description: 'Grace period in seconds: how long a server may take to exit after it is told to. Default: 30.',
        },
      },
    },
  },
} as const satisfies ObjectSchema
