/** Schema of `run`, the short form of a template. */
import { sizeLimits } from '../model/sizes.js'
import { kib, port } from './common.js'
import { environmentName, environmentValue, protocols, strings } from './pod-template.js'
import type { ObjectSchema } from './schema.js'

const runPort = {
  type: 'object',
  unknownFields: 'refuse',
  expected: 'an object with a port',
  required: ['port'],
  properties: {
    name: {
      type: 'string',
      minLength: 1,
      maxBytes: sizeLimits.nameBytes,
      controls: 'none',
      description: 'Name by which the game and `allocate` look up the port. Different ports must have different names.',
      examples: ['game'],
    },
    port: { ...port, description: 'The number by which the build calls the port.', examples: [7777] },
    protocol: { type: 'string', enum: protocols, description: 'Transport protocol. Default: TCP.' },
  },
} as const satisfies ObjectSchema

export const runSpec = {
  id: 'RunSpec',
  type: 'object',
  unknownFields: 'refuse',
  expected: 'an object such as { command, ports }',
  description:
    'Short form of portsToExpose and template, for a game that is one program. The build is stored and returned with these two.',
  examples: [{ command: ['node', 'game.mjs'], ports: [{ name: 'game', port: 7777 }] }],
  properties: {
    command: {
      ...strings,
      description: "Program and first arguments. Required by the process backend. Default: the image's.",
    },
    args: {
      ...strings,
      description: `Arguments that follow the command. At most ${kib(sizeLimits.commandBytes)} of UTF-8 together with the command, with references expanded.`,
    },
    env: {
      type: 'object',
      keys: environmentName,
      additionalProperties: environmentValue,
      expected: 'an object of strings',
      description: `Environment variables of the game. At most ${kib(sizeLimits.environmentBytes)} of UTF-8 in names and expanded values.`,
      examples: [{ MAP: 'dust' }],
    },
    image: {
      type: 'string',
      minLength: 1,
      maxBytes: sizeLimits.imageBytes,
      controls: 'none',
      description: 'Image to run. Required by the Docker and Kubernetes backends, ignored by the process backend.',
      examples: ['registry.example.com/arena:1'],
    },
    stdin: {
      type: 'boolean',
      description:
        'Whether the standard input of the game is kept open, so that lines can be sent to it. Default: false.',
    },
    ports: {
      type: 'array',
      items: runPort,
      expected: 'an array of objects',
      description: 'Public ports, in the order in which status.ports of a server lists them. Default: none.',
    },
  },
} as const satisfies ObjectSchema
