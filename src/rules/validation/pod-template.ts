/**
 * A build's template, a Kubernetes PodTemplateSpec: its schema, which describes only the fields that gamekeeper itself reads, and what the
 * backends take from it. Pure.
 *
 * The Kubernetes backend uses the whole template; the other backends use only its first container. A field that a backend
 * does not support is skipped and reported if it concerns only other backends. It is rejected if ignoring it could change
 * how the game runs.
 */
import { partsOf, sdkVariables } from '../game/sdk-config.js'
import { type DeclaredPorts, defaultPortName } from '../model/ports.js'
import { quantityOf } from '../model/quantity.js'
import type { PodTemplateSpec } from '../model/resources.js'
import { sizeLimits, utf8Bytes } from '../model/sizes.js'
import { closestName } from './closest-name.js'
import {
  allInOne,
  type Checked,
  invalid,
  isObject,
  type Problem,
  type Refused,
  shown,
  shownName,
  valid,
} from './problem.js'
import type { ArraySchema, ObjectSchema, QuantitySchema, StringSchema } from './schema.js'
import { count, kib, port } from './shared-schemas.js'
import { compileDocument } from './validator.js'

/** One line. */
const line = { type: 'string', nullable: true, controls: 'none' } as const satisfies StringSchema

/** Arguments may contain whole scripts, so line breaks are allowed. No system accepts a NUL. */
export const stringsSchema = {
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
      ...stringsSchema,
      nullable: true,
      description: 'Program and first arguments. Required by the process backend.',
    },
    args: {
      ...stringsSchema,
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
        requests: {
          type: 'object',
          nullable: true,
          additionalProperties: quantity,
          expected: 'an object of quantities',
          description:
            'Amount of each resource that the container is to have. A budget of the fleet counts cpu and memory.',
          examples: [{ cpu: '250m', memory: '256Mi' }],
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

/**
 * Which fields a backend supports. `pod`: the whole template. `container`: the grace period, and the first container's
 * image, imagePullPolicy, command, args, env, workingDir, ports, stdin, tty and resources.limits. `process`: like `container`, but
 * without tty and the image and resource fields. `process-memory`: like `process`, with resources.limits.memory.
 */
export type TemplateSupport = 'pod' | 'container' | 'process' | 'process-memory'

type LimitedSupport = Exclude<TemplateSupport, 'pod'>

/** The fields of the first container that backends other than Kubernetes support. */
export interface GameContainer {
  readonly name: string
  readonly image?: string
  readonly imagePullPolicy?: string
  readonly command: readonly string[]
  readonly args: readonly string[]
  readonly env: readonly { readonly name: string; readonly value: string }[]
  readonly workingDir?: string
  readonly ports: readonly { readonly name?: string; readonly containerPort: number; readonly protocol: string }[]
  /** Unparsed, as in the template: `{ cpu: '500m', memory: '256Mi' }`. */
  readonly limits: Readonly<Record<string, string>>
  /** Whether its standard input is kept open, for lines that are sent to it. */
  readonly stdin: boolean
  /** Whether it has a terminal. */
  readonly tty: boolean
}

interface CheckedTemplate {
  /** Fields that the backend ignores because they concern only other backends. */
  readonly skipped: readonly string[]
}

const defaultGraceSeconds = 30

/** Returns the grace period of servers that run this template, in seconds. Default: 30. */
export function graceSecondsOf(template: PodTemplateSpec): number {
  const seconds = objectAt(template, 'spec')['terminationGracePeriodSeconds']
  return typeof seconds === 'number' ? seconds : defaultGraceSeconds
}

/** Reads the first container of a template that has passed `checkTemplate`. */
export function gameContainerOf(template: PodTemplateSpec): GameContainer {
  const containers = objectAt(template, 'spec')['containers']
  const first: unknown = Array.isArray(containers) ? containers[0] : undefined
  return containerOf(isObject(first) ? first : {})
}

/** Sums what the containers of a template request: CPU cores, and bytes of memory. What they do not request counts as 0. */
export function requestsOf(template: PodTemplateSpec): { readonly cpu: number; readonly memory: number } {
  let [cpu, memory] = [0, 0]
  for (const container of objectsAt(objectAt(template, 'spec'), 'containers')) {
    const requests = quantitiesIn(objectAt(objectAt(container, 'resources'), 'requests'))
    cpu += quantityOf(requests['cpu'] ?? '0') || 0
    memory += quantityOf(requests['memory'] ?? '0') || 0
  }
  return { cpu, memory }
}

/** Reads the ports of all containers, because any of them may declare a port for the game. */
export function gamePortsOf(template: PodTemplateSpec): DeclaredPorts {
  const declared = new Map<number, { readonly name: string; readonly protocol: string }[]>()
  for (const { containerPort, name, protocol } of declaredPortsOf(template)) {
    const same = declared.get(containerPort) ?? []
    declared.set(containerPort, [...same, { name: name ?? same[0]?.name ?? defaultPortName(containerPort), protocol }])
  }
  return declared
}

/** Reads the ports that the containers of a template declare, those of the first container first. */
function declaredPortsOf(template: PodTemplateSpec): GameContainer['ports'] {
  return objectsAt(objectAt(template, 'spec'), 'containers').flatMap(portsAt)
}

function containerOf(container: Fields): GameContainer {
  return {
    name: stringAt(container, 'name') ?? 'game',
    ...optional('image', stringAt(container, 'image')),
    ...optional('imagePullPolicy', stringAt(container, 'imagePullPolicy')),
    command: stringsAt(container, 'command'),
    args: stringsAt(container, 'args'),
    env: objectsAt(container, 'env').map((entry) => ({
      name: String(entry['name']),
      value: stringAt(entry, 'value') ?? '',
    })),
    ...optional('workingDir', stringAt(container, 'workingDir')),
    ports: portsAt(container),
    limits: quantitiesIn(objectAt(objectAt(container, 'resources'), 'limits')),
    stdin: container['stdin'] === true,
    tty: container['tty'] === true,
  }
}

function portsAt(container: Fields): GameContainer['ports'] {
  return objectsAt(container, 'ports').map((entry) => ({
    ...optional('name', stringAt(entry, 'name')),
    containerPort: Number(entry['containerPort']),
    protocol: stringAt(entry, 'protocol') ?? 'TCP',
  }))
}

function quantitiesIn(fields: Fields): Readonly<Record<string, string>> {
  const written: Record<string, string> = {}
  for (const [name, quantity] of Object.entries(fields)) {
    if (typeof quantity === 'string' || typeof quantity === 'number') written[name] = String(quantity)
  }
  return written
}

type Verdict = 'supported' | 'skipped'
/** A field that is missing from the table is rejected, because an error is better than a game that behaves differently. */
type Table = Readonly<Record<string, Verdict>>

const topFields: Table = { metadata: 'skipped', spec: 'supported' }

const podFields: Table = {
  containers: 'supported',
  terminationGracePeriodSeconds: 'supported',
  affinity: 'skipped',
  automountServiceAccountToken: 'skipped',
  dnsPolicy: 'skipped',
  enableServiceLinks: 'skipped',
  imagePullSecrets: 'skipped',
  nodeName: 'skipped',
  nodeSelector: 'skipped',
  preemptionPolicy: 'skipped',
  priority: 'skipped',
  priorityClassName: 'skipped',
  restartPolicy: 'skipped',
  schedulerName: 'skipped',
  serviceAccount: 'skipped',
  serviceAccountName: 'skipped',
  tolerations: 'skipped',
  topologySpreadConstraints: 'skipped',
}

const containerFields = (support: TemplateSupport): Table => ({
  name: 'supported',
  image: isProcess(support) ? 'skipped' : 'supported',
  command: 'supported',
  args: 'supported',
  env: 'supported',
  workingDir: 'supported',
  ports: 'supported',
  resources: support === 'process' ? 'skipped' : 'supported',
  imagePullPolicy: isProcess(support) ? 'skipped' : 'supported',
  stdin: 'supported',
  tty: 'supported',
  livenessProbe: 'skipped',
  readinessProbe: 'skipped',
  startupProbe: 'skipped',
  terminationMessagePath: 'skipped',
  terminationMessagePolicy: 'skipped',
})

const envFields: Table = { name: 'supported', value: 'supported' }
const portFields: Table = {
  name: 'supported',
  containerPort: 'supported',
  protocol: 'supported',
  hostPort: 'skipped',
  hostIP: 'skipped',
}
const resourceFields: Table = { limits: 'supported', requests: 'skipped' }
const limitFields = (support: TemplateSupport): Table => ({
  cpu: isProcess(support) ? 'skipped' : 'supported',
  memory: 'supported',
  'ephemeral-storage': 'skipped',
})

/** Other fields of a pod template in Kubernetes: their names are written as they are meant. */
const otherFields: ReadonlySet<string> = new Set([
  ...['activeDeadlineSeconds', 'dnsConfig', 'ephemeralContainers', 'hostAliases', 'hostIPC', 'hostNetwork', 'hostPID'],
  ...[
    'hostUsers',
    'hostname',
    'hostnameOverride',
    'initContainers',
    'os',
    'overhead',
    'readinessGates',
    'resourceClaims',
  ],
  ...[
    'resources',
    'runtimeClassName',
    'schedulingGates',
    'securityContext',
    'setHostnameAsFQDN',
    'shareProcessNamespace',
  ],
  ...[
    'subdomain',
    'volumes',
    'appProtocol',
    'claims',
    'envFrom',
    'lifecycle',
    'resizePolicy',
    'restartPolicy',
    'restartPolicyRules',
  ],
  ...['stdinOnce', 'volumeDevices', 'volumeMounts', 'valueFrom'],
])

function isProcess(support: TemplateSupport): boolean {
  return support === 'process' || support === 'process-memory'
}

/** Checks whether a backend can run a template. `field` is the path of the template, for messages. */
export function checkTemplate(template: unknown, support: TemplateSupport, field: string): Checked<CheckedTemplate> {
  const shape = checkShape(template, field)
  if (!shape.ok) return shape
  const problem = checkExpansions(shape.value, field)
  if (problem) return problem
  return support === 'pod' ? valid({ skipped: [] }) : checkSupport(shape.value, support, field)
}

/** Kubernetes expands the references of every container, so all of them are checked. */
function checkExpansions({ containers, pod }: TemplateShape, field: string): Refused | undefined {
  const check = (name: string) => (container: Fields, i: number) =>
    checkExpansion(containerOf(container), `${field}.spec.${name}[${i}]`)
  return firstOf(containers, check('containers')) ?? firstOf(objectsAt(pod, 'initContainers'), check('initContainers'))
}

function checkSupport(
  { template, pod, first, containers }: TemplateShape,
  support: LimitedSupport,
  field: string,
): Checked<CheckedTemplate> {
  const at = `${field}.spec.containers`
  if (containers.length > 1) {
    return invalid(`${at}[1]`, `is a second container, and the ${backendOf(support)} backend runs only one`)
  }
  const skipped: string[] = []
  const problems: Problem[] = []
  const classified = (fields: Fields, table: Table, where: string) =>
    classify(fields, table, where, support, { skipped, problems })
  const resources = support === 'process' ? {} : objectAt(first, 'resources')
  classified(template, topFields, field)
  classified(pod, podFields, `${field}.spec`)
  classified(first, containerFields(support), `${at}[0]`)
  objectsAt(first, 'env').forEach((entry, i) => classified(entry, envFields, `${at}[0].env[${i}]`))
  objectsAt(first, 'ports').forEach((entry, i) => classified(entry, portFields, `${at}[0].ports[${i}]`))
  classified(resources, resourceFields, `${at}[0].resources`)
  classified(objectAt(resources, 'limits'), limitFields(support), `${at}[0].resources.limits`)
  const needed = checkNeeds(first, support, `${at}[0]`)
  if (needed) problems.push(needed.problem)
  const [problem, ...others] = problems
  return problem ? { ok: false, problem: allInOne([problem, ...others]) } : valid({ skipped })
}

function backendOf(support: TemplateSupport): string {
  return isProcess(support) ? 'process' : support
}

function checkNeeds(container: Fields, support: LimitedSupport, at: string): Refused | undefined {
  if (isProcess(support) && !stringsAt(container, 'command')[0]) {
    return invalid(`${at}.command`, 'is required: it names the program that the process backend starts')
  }
  if (isProcess(support) && container['tty'] === true) {
    const way = 'with stdin: true, start the game in one with the program script'
    return invalid(`${at}.tty`, `must not be true: the process backend has no terminals; ${way}`)
  }
  if (support === 'container' && !stringAt(container, 'image')) {
    return invalid(`${at}.image`, 'is required: it names the image that the container runs')
  }
  return undefined
}

/** Collects skipped fields, and the problems of unsupported ones. Ignores empty values such as `volumes: []`, which have no effect. */
function classify(
  object: Fields,
  table: Table,
  at: string,
  support: TemplateSupport,
  { skipped, problems }: { readonly skipped: string[]; readonly problems: Problem[] },
): void {
  for (const [name, value] of Object.entries(object)) {
    if (isEmpty(value)) continue
    const verdict = Object.hasOwn(table, name) ? table[name] : undefined
    if (verdict === 'skipped') skipped.push(`${at}.${name}`)
    if (verdict === undefined) {
      const meant = otherFields.has(name) ? undefined : closestName(name, Object.keys(table))
      problems.push({
        field: `${at}.${shownName(name)}`,
        message:
          meant === undefined
            ? `is not supported by the ${backendOf(support)} backend, and ignoring it could change the game`
            : `is not allowed; did you mean ${meant}?`,
      })
    }
  }
}

function isEmpty(value: unknown): boolean {
  if (value === undefined || value === null) return true
  if (Array.isArray(value)) return value.length === 0
  return isObject(value) && Object.keys(value).length === 0
}

function optional<K extends string, V>(key: K, value: V | undefined): { [P in K]?: V } {
  const result: { [P in K]?: V } = {}
  if (value !== undefined) result[key] = value
  return result
}

export type Fields = Readonly<Record<string, unknown>>

interface TemplateShape {
  readonly template: Fields
  readonly pod: Fields
  /** The game server's container. */
  readonly first: Fields
  readonly containers: readonly Fields[]
}

const check = compileDocument(podTemplate)

/** `field` is the path of the template, for messages. */
function checkShape(template: unknown, field: string): Checked<TemplateShape> {
  const checked = check(template, field)
  if (!checked.ok) return checked
  const pod = objectAt(checked.value, 'spec')
  const containers = objectsAt(pod, 'containers')
  const problem = firstOf(containers, (container, i) =>
    checkPortNames(objectsAt(container, 'ports'), `${field}.spec.containers[${i}].ports`),
  )
  const [first = {}] = containers
  return problem ?? valid({ template: checked.value, pod, first, containers })
}

/** A game looks up its ports by name, so two different port numbers must not share a name. */
function checkPortNames(ports: readonly Fields[], at: string): Refused | undefined {
  const numbers = new Map<string, unknown>()
  return firstOf(ports, (port, i) => {
    const name = stringAt(port, 'name')
    if (name === undefined) return undefined
    const { containerPort } = port
    const other = numbers.get(name) ?? containerPort
    numbers.set(name, containerPort)
    if (other === containerPort) return undefined
    return invalid(
      `${at}[${i}].name`,
      `must stand for one port number, but ${shown(name)} names ${shown(other)} and ${shown(containerPort)}`,
    )
  })
}

/** Returns the first result of `check` that is not undefined. */
export function firstOf<T, R>(items: readonly T[], check: (item: T, index: number) => R | undefined): R | undefined {
  for (const [i, item] of items.entries()) {
    const found = check(item, i)
    if (found !== undefined) return found
  }
  return undefined
}

export function objectAt(object: Fields, name: string): Fields {
  const value = object[name]
  return isObject(value) ? value : {}
}

export function objectsAt(object: Fields, name: string): readonly Fields[] {
  const value = object[name]
  return Array.isArray(value) ? value.filter(isObject) : []
}

export function stringAt(object: Fields, name: string): string | undefined {
  const value = object[name]
  return typeof value === 'string' ? value : undefined
}

export function stringsAt(object: Fields, name: string): readonly string[] {
  const value = object[name]
  return Array.isArray(value) ? value.filter((entry) => typeof entry === 'string') : []
}

/** For a variable of the SDK, whose value is not known before the server starts. Long enough for any path or id. */
const sdkValueBytes = 1_024

/**
 * Checks the sizes of a container's environment and command line, with all references expanded. `at` is the path of the
 * container, for messages. Builds no expanded text, so that a reference to a reference costs nothing.
 */
function checkExpansion({ env, command, args }: GameContainer, at: string): Refused | undefined {
  const { argumentBytes, commandBytes, environmentBytes, environmentValueBytes } = sizeLimits
  const sizes = new Map<string, number>()
  let total = 0
  for (const [i, { name, value }] of env.entries()) {
    const bytes = expandedBytes(value, sizes)
    if (bytes > environmentValueBytes) return tooLarge(`${at}.env[${i}].value`, environmentValueBytes, bytes)
    total += utf8Bytes(name) + bytes
    if (total > environmentBytes) return tooLarge(`${at}.env`, environmentBytes, total, 'in names and values')
    // The value of the SDK takes precedence unless it is empty.
    sizes.set(name, Math.max(bytes, sdkVariables.has(name) ? sdkValueBytes : 0))
  }
  total = 0
  for (const [field, parts] of Object.entries({ command, args })) {
    for (const [i, part] of parts.entries()) {
      const bytes = expandedBytes(part, sizes)
      if (bytes > argumentBytes) return tooLarge(`${at}.${field}[${i}]`, argumentBytes, bytes)
      total += bytes
      if (total > commandBytes) return tooLarge(`${at}.${field}`, commandBytes, total, 'in command and args')
    }
  }
  return undefined
}

function expandedBytes(text: string, sizes: ReadonlyMap<string, number>): number {
  let bytes = 0
  for (const part of partsOf(text)) {
    const known = part.name === undefined ? undefined : sizes.get(part.name)
    const ofSdk = part.name !== undefined && sdkVariables.has(part.name) ? sdkValueBytes : undefined
    bytes += known ?? ofSdk ?? utf8Bytes(part.text)
  }
  return bytes
}

function tooLarge(field: string, most: number, found: number, of?: string): Refused {
  const where = of === undefined ? '' : ` ${of}`
  return invalid(
    field,
    `must expand to at most ${most} bytes of UTF-8${where}, but expands to ${found}${of === undefined ? '' : ' or more'}`,
  )
}
