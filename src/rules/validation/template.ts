/**
 * Reads a PodTemplateSpec: the one template that runs on every backend. Pure.
 *
 * Kubernetes gets it whole. The others read its first container. What they leave out falls in two classes: what only
 * concerns another backend is skipped and said once; what would change the game's behaviour is refused.
 */
import { type Checked, invalid, isObject, type Refused, valid } from './problem.js'
import type { PodTemplateSpec } from '../model/resources.js'
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
 * What a backend honours. `pod`: the template whole. `container`: image and its pull policy, command, args, env, workingDir, ports,
 * resources.limits and the grace period of the first container. `process`: the same without image and resources.
 */
export type TemplateSupport = 'pod' | 'container' | 'process'

/** The first container, as far as every backend can honour it. */
export interface GameContainer {
  readonly name: string
  readonly image?: string
  readonly imagePullPolicy?: string
  readonly command: readonly string[]
  readonly args: readonly string[]
  readonly env: readonly { readonly name: string; readonly value: string }[]
  readonly workingDir?: string
  readonly ports: readonly { readonly name?: string; readonly containerPort: number; readonly protocol: string }[]
  /** As written: `{ cpu: '500m', memory: '256Mi' }`. */
  readonly limits: Readonly<Record<string, string>>
}

export interface CheckedTemplate {
  /** Fields that this backend skips, since they only concern another. */
  readonly skipped: readonly string[]
}

const defaultGraceSeconds = 30

/** How long a server of this template may take to end by itself. 30 s unless the template says otherwise. */
export function graceSecondsOf(template: PodTemplateSpec): number {
  const seconds = objectAt(template, 'spec')['terminationGracePeriodSeconds']
  return typeof seconds === 'number' ? seconds : defaultGraceSeconds
}

/** The game server's container of a template that `checkTemplate` has passed. */
export function gameContainerOf(template: PodTemplateSpec): GameContainer {
  const containers = objectAt(template, 'spec')['containers']
  const first: unknown = Array.isArray(containers) ? containers[0] : undefined
  const container = isObject(first) ? first : {}
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
    ports: objectsAt(container, 'ports').map((entry) => ({
      ...optional('name', stringAt(entry, 'name')),
      containerPort: Number(entry['containerPort']),
      protocol: stringAt(entry, 'protocol') ?? 'TCP',
    })),
    limits: limitsOf(objectAt(objectAt(container, 'resources'), 'limits')),
  }
}

function limitsOf(limits: Fields): Readonly<Record<string, string>> {
  const written: Record<string, string> = {}
  for (const [name, limit] of Object.entries(limits)) {
    if (typeof limit === 'string' || typeof limit === 'number') written[name] = String(limit)
  }
  return written
}

type Verdict = 'honoured' | 'skipped' | 'refused'
/** Whatever a table does not name is refused: better a clear no than a game that behaves differently. */
type Table = Readonly<Record<string, Verdict>>

const topFields: Table = { metadata: 'skipped', spec: 'honoured' }

const podFields: Table = {
  containers: 'honoured',
  terminationGracePeriodSeconds: 'honoured',
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
  name: 'honoured',
  image: support === 'process' ? 'skipped' : 'honoured',
  command: 'honoured',
  args: 'honoured',
  env: 'honoured',
  workingDir: 'honoured',
  ports: 'honoured',
  resources: support === 'process' ? 'skipped' : 'honoured',
  imagePullPolicy: support === 'process' ? 'skipped' : 'honoured',
  livenessProbe: 'skipped',
  readinessProbe: 'skipped',
  startupProbe: 'skipped',
  terminationMessagePath: 'skipped',
  terminationMessagePolicy: 'skipped',
})

const envFields: Table = { name: 'honoured', value: 'honoured' }
const portFields: Table = {
  name: 'honoured',
  containerPort: 'honoured',
  protocol: 'honoured',
  hostPort: 'skipped',
  hostIP: 'skipped',
}
const resourceFields: Table = { limits: 'honoured', requests: 'skipped' }
const limitFields: Table = { cpu: 'honoured', memory: 'honoured', 'ephemeral-storage': 'skipped' }

/** Checks `spec.template` for a backend. `field` is where it stands, for messages. */
export function checkTemplate(template: unknown, support: TemplateSupport, field: string): Checked<CheckedTemplate> {
  const shape = checkShape(template, field)
  if (!shape.ok) return shape
  return support === 'pod' ? valid({ skipped: [] }) : checkSupport(shape.value, support, field)
}

function checkSupport(
  { template, pod, first, containerCount }: TemplateShape,
  support: 'container' | 'process',
  field: string,
): Checked<CheckedTemplate> {
  const at = `${field}.spec.containers`
  if (containerCount > 1) {
    return invalid(`${at}[1]`, `is a second container, which a ${support} backend cannot run beside the first`)
  }
  const skipped: string[] = []
  const sort = (fields: Fields, table: Table, where: string) => sortFields(fields, table, where, support, skipped)
  const resources = support === 'container' ? objectAt(first, 'resources') : {}
  const problem =
    sort(template, topFields, field) ??
    sort(pod, podFields, `${field}.spec`) ??
    sort(first, containerFields(support), `${at}[0]`) ??
    firstOf(objectsAt(first, 'env'), (entry, i) => sort(entry, envFields, `${at}[0].env[${i}]`)) ??
    firstOf(objectsAt(first, 'ports'), (entry, i) => sort(entry, portFields, `${at}[0].ports[${i}]`)) ??
    sort(resources, resourceFields, `${at}[0].resources`) ??
    sort(objectAt(resources, 'limits'), limitFields, `${at}[0].resources.limits`) ??
    checkNeeds(first, support, `${at}[0]`)
  return problem ?? valid({ skipped })
}

function checkNeeds(container: Fields, support: 'container' | 'process', at: string): Refused | undefined {
  if (support === 'process' && !stringsAt(container, 'command')[0]) {
    return invalid(`${at}.command`, 'is needed: it names the program that the process backend starts')
  }
  if (support === 'container' && !stringAt(container, 'image')) {
    return invalid(`${at}.image`, 'is needed: it names the image that the container runs')
  }
  return undefined
}

/** Notes what is skipped, and returns the first field that is refused. Empty values (`volumes: []`) say nothing. */
function sortFields(
  object: Fields,
  table: Table,
  at: string,
  support: TemplateSupport,
  skipped: string[],
): Refused | undefined {
  for (const [name, value] of Object.entries(object)) {
    if (isEmpty(value)) continue
    const verdict = Object.hasOwn(table, name) ? table[name] : 'refused'
    if (verdict === 'skipped') skipped.push(`${at}.${name}`)
    if (verdict === 'refused') {
      return invalid(
        `${at}.${name}`,
        `cannot be honoured by a ${support} backend, and leaving it out could change the game`,
      )
    }
  }
  return undefined
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
