/**
 * Reads a PodTemplateSpec: the one template that runs on every backend. Pure.
 *
 * Kubernetes gets it whole. The others read its first container. What they leave out falls in two classes: what only
 * concerns another backend is skipped and said once; what would change the game's behaviour is refused.
 */
import { type Checked, invalid, isObject, shown, valid } from './problem.js'
import type { PodTemplateSpec } from './resources.js'

/**
 * What a backend honours. `pod`: the template whole. `container`: image, command, args, env, workingDir, ports,
 * resources.limits and the grace period of the first container. `process`: the same without image and resources.
 */
export type TemplateSupport = 'pod' | 'container' | 'process'

/** The first container, as far as every backend can honour it. */
export interface GameContainer {
  readonly name: string
  readonly image?: string
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
export function graceMsOf(template: PodTemplateSpec): number {
  const seconds = objectAt(template, 'spec')['terminationGracePeriodSeconds']
  return (typeof seconds === 'number' ? seconds : defaultGraceSeconds) * 1000
}

/** The game server's container of a template that `checkTemplate` has passed. */
export function gameContainerOf(template: PodTemplateSpec): GameContainer {
  const containers = objectAt(template, 'spec')['containers']
  const first: unknown = Array.isArray(containers) ? containers[0] : undefined
  const container = isObject(first) ? first : {}
  return {
    name: stringAt(container, 'name') ?? 'game',
    ...optional('image', stringAt(container, 'image')),
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
    limits: Object.fromEntries(
      Object.entries(objectAt(objectAt(container, 'resources'), 'limits')).map(([name, value]) => [
        name,
        String(value),
      ]),
    ),
  }
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
  imagePullPolicy: 'skipped',
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

/** Checks `spec.template` for a backend. `field` is where it stands, for messages. */
export function checkTemplate(template: unknown, support: TemplateSupport, field: string): Checked<CheckedTemplate> {
  const shape = checkShape(template, field)
  if (!shape.ok) return shape
  const { pod, containers } = shape.value
  if (support === 'pod') return valid({ skipped: [] })

  const at = `${field}.spec.containers`
  if (containers.length > 1) {
    return invalid(`${at}[1]`, `is a second container, which a ${support} backend cannot run beside the first`)
  }
  const container = containers[0] ?? {}
  const skipped: string[] = []
  const problem =
    sort(isObject(template) ? template : {}, topFields, field, support, skipped) ??
    sort(pod, podFields, `${field}.spec`, support, skipped) ??
    sort(container, containerFields(support), `${at}[0]`, support, skipped) ??
    firstOf(objectsAt(container, 'env'), (entry, i) =>
      sort(entry, envFields, `${at}[0].env[${i}]`, support, skipped),
    ) ??
    firstOf(objectsAt(container, 'ports'), (entry, i) =>
      sort(entry, portFields, `${at}[0].ports[${i}]`, support, skipped),
    ) ??
    (support === 'container'
      ? sort(objectAt(container, 'resources'), resourceFields, `${at}[0].resources`, support, skipped)
      : undefined) ??
    checkNeeds(container, support, `${at}[0]`)
  return problem ?? valid({ skipped })
}

interface Shape {
  readonly pod: Readonly<Record<string, unknown>>
  readonly containers: readonly Readonly<Record<string, unknown>>[]
}

/** What holds on every backend: a pod with at least one container, and known fields of their known types. */
function checkShape(template: unknown, field: string): Checked<Shape> {
  if (!isObject(template)) return invalid(field, `must be a PodTemplateSpec object, but is ${shown(template)}`)
  const pod = template['spec']
  if (!isObject(pod)) return invalid(`${field}.spec`, `must be an object with containers, but is ${shown(pod)}`)
  const grace = pod['terminationGracePeriodSeconds']
  if (grace !== undefined && !(Number.isInteger(grace) && Number(grace) >= 0)) {
    return invalid(`${field}.spec.terminationGracePeriodSeconds`, `must be an integer ≥ 0, but is ${shown(grace)}`)
  }
  const at = `${field}.spec.containers`
  const list: unknown = pod['containers']
  if (!Array.isArray(list) || list.length === 0) {
    return invalid(at, `must be an array of at least one container, but is ${shown(list)}`)
  }
  const containers: Readonly<Record<string, unknown>>[] = []
  for (const [i, container] of list.entries()) {
    if (!isObject(container)) return invalid(`${at}[${i}]`, `must be an object, but is ${shown(container)}`)
    const problem = checkContainer(container, `${at}[${i}]`)
    if (problem) return problem
    containers.push(container)
  }
  return valid({ pod, containers })
}

type Refusal = ReturnType<typeof invalid>

function checkContainer(container: Readonly<Record<string, unknown>>, at: string): Refusal | undefined {
  for (const name of ['name', 'image', 'workingDir']) {
    const value = container[name]
    if (value !== undefined && typeof value !== 'string') {
      return invalid(`${at}.${name}`, `must be a string, but is ${shown(value)}`)
    }
  }
  for (const name of ['command', 'args']) {
    const value = container[name]
    if (value !== undefined && !(Array.isArray(value) && value.every((part) => typeof part === 'string'))) {
      return invalid(`${at}.${name}`, `must be an array of strings, but is ${shown(value)}`)
    }
  }
  for (const name of ['env', 'ports']) {
    const value = container[name]
    if (value !== undefined && !(Array.isArray(value) && value.every(isObject))) {
      return invalid(`${at}.${name}`, `must be an array of objects, but is ${shown(value)}`)
    }
  }
  return (
    firstOf(objectsAt(container, 'env'), (entry, i) => {
      const { name, value } = entry
      if (typeof name !== 'string' || name === '' || name.includes('=') || name.includes('\0')) {
        return invalid(`${at}.env[${i}].name`, `must be a variable's name, but is ${shown(name)}`)
      }
      return value === undefined || typeof value === 'string'
        ? undefined
        : invalid(`${at}.env[${i}].value`, `must be a string, but is ${shown(value)}`)
    }) ??
    firstOf(objectsAt(container, 'ports'), (entry, i) => {
      const port = entry['containerPort']
      return isPort(port)
        ? undefined
        : invalid(`${at}.ports[${i}].containerPort`, `must be an integer from 1 to 65535, but is ${shown(port)}`)
    })
  )
}

function checkNeeds(
  container: Readonly<Record<string, unknown>>,
  support: 'container' | 'process',
  at: string,
): Refusal | undefined {
  if (support === 'process' && stringsAt(container, 'command').length === 0) {
    return invalid(`${at}.command`, 'is needed: it names the program that the process backend starts')
  }
  if (support === 'container' && !stringAt(container, 'image')) {
    return invalid(`${at}.image`, 'is needed: it names the image that the container runs')
  }
  return undefined
}

/** Notes what is skipped, and returns the first field that is refused. Empty values (`volumes: []`) say nothing. */
function sort(
  object: Readonly<Record<string, unknown>>,
  table: Table,
  at: string,
  support: TemplateSupport,
  skipped: string[],
): Refusal | undefined {
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

export function isPort(value: unknown): value is number {
  return Number.isInteger(value) && Number(value) >= 1 && Number(value) <= 65_535
}

function firstOf<T, R>(items: readonly T[], check: (item: T, index: number) => R | undefined): R | undefined {
  for (const [i, item] of items.entries()) {
    const found = check(item, i)
    if (found !== undefined) return found
  }
  return undefined
}

function objectAt(object: Readonly<Record<string, unknown>>, name: string): Readonly<Record<string, unknown>> {
  const value = object[name]
  return isObject(value) ? value : {}
}

function objectsAt(
  object: Readonly<Record<string, unknown>>,
  name: string,
): readonly Readonly<Record<string, unknown>>[] {
  const value = object[name]
  return Array.isArray(value) ? value.filter(isObject) : []
}

function stringAt(object: Readonly<Record<string, unknown>>, name: string): string | undefined {
  const value = object[name]
  return typeof value === 'string' ? value : undefined
}

function stringsAt(object: Readonly<Record<string, unknown>>, name: string): readonly string[] {
  const value = object[name]
  return Array.isArray(value) ? value.filter((part) => typeof part === 'string') : []
}

function optional<K extends string, V>(key: K, value: V | undefined): { [P in K]?: V } {
  const result: { [P in K]?: V } = {}
  if (value !== undefined) result[key] = value
  return result
}
