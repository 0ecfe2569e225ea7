/** `run`, the short form of a template: its schema, and how it becomes a template. Pure. */
import type { BuildSpec, RunSpec } from '../model/resources.js'
import { sizeLimits } from '../model/sizes.js'
import { environmentName, environmentValue, firstOf, protocols, stringsSchema } from './pod-template.js'
import { invalid, type Refused } from './problem.js'
import type { ObjectSchema } from './schema.js'
import { kib, port } from './shared-schemas.js'

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
      ...stringsSchema,
      description: "Program and first arguments. Required by the process backend. Default: the image's.",
    },
    args: {
      ...stringsSchema,
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

export function expandRun(run: RunSpec): Pick<BuildSpec, 'portsToExpose' | 'template'> {
  const { command, args, env, image, stdin, ports = [] } = run
  const container = {
    name: 'game',
    ...(image !== undefined && { image }),
    ...(command && { command }),
    ...(args && { args }),
    ...(env && { env: Object.entries(env).map(([name, value]) => ({ name, value })) }),
    ...(stdin !== undefined && { stdin }),
    ...(ports.length > 0 && { ports: ports.map(({ port, ...others }) => ({ ...others, containerPort: port })) }),
  }
  // A port with two protocols is listed twice, but made public once.
  return {
    portsToExpose: [...new Set(ports.map(({ port }) => port))],
    template: { spec: { containers: [container] } },
  }
}

/** Returns undefined if no port is listed twice with the same protocol. */
export function checkRunPorts({ ports = [] }: RunSpec): Refused | undefined {
  const seen = new Set<string>()
  return firstOf(ports, ({ port, protocol = 'TCP' }, i) => {
    const isNew = seen.size < seen.add(`${port}/${protocol}`).size
    return isNew ? undefined : invalid(`spec.run.ports[${i}].port`, `must not repeat ${port} with ${protocol}`)
  })
}

/**
 * Replaces the paths of fields of the expanded template by those of `run`: `spec.template.spec.containers[0].command` becomes
 * `spec.run.command`.
 */
export function runFieldsIn(text: string, { env = {} }: RunSpec): string {
  const names = Object.keys(env)
  return text
    .replaceAll('spec.template.spec.containers[0]', 'spec.run')
    .replaceAll('spec.template', 'spec.run')
    .replaceAll(/\bspec\.run\.env\[(\d+)\](\.value)?/g, (path, index) => {
      const name = names[Number(index)]
      return name === undefined ? path : `spec.run.env.${name}`
    })
    .replaceAll(/\b(spec\.run\.ports\[\d+\])\.containerPort/g, '$1.port')
}
