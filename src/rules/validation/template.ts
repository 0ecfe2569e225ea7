/**
 * Reads a PodTemplateSpec for the backends. Pure.
 *
 * The Kubernetes backend uses the whole template; the other backends use only its first container. A field that a backend
 * does not support is skipped and reported if it concerns only other backends. It is rejected if ignoring it could change
 * how the game runs.
 */
import type { PodTemplateSpec } from '../model/resources.js'
import { closestName } from './closest-name.js'
import { checkExpansion } from './expansion.js'
import { allInOne, type Checked, invalid, isObject, type Problem, type Refused, shownName, valid } from './problem.js'
import {
  checkShape,
  type Fields,
  firstOf,
  objectAt,
  objectsAt,
  stringAt,
  stringsAt,
  type TemplateShape,
} from './template-shape.js'

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

export interface CheckedTemplate {
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

/** Reads the ports that the containers of a template declare, those of the first container first. */
export function declaredPortsOf(template: PodTemplateSpec): GameContainer['ports'] {
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
    limits: limitsOf(objectAt(objectAt(container, 'resources'), 'limits')),
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

function limitsOf(limits: Fields): Readonly<Record<string, string>> {
  const written: Record<string, string> = {}
  for (const [name, limit] of Object.entries(limits)) {
    if (typeof limit === 'string' || typeof limit === 'number') written[name] = String(limit)
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
