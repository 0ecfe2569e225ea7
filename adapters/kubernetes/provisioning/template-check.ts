/**
 * Finds mistakes in a build's template that only show when its pods are created: without a call, with a dry run, and, for builds that were
 * written without the API, afterwards.
 */
import { FleetError, messageOf } from '../../../src/contracts/errors.js'
import type { CollectionListener } from '../../../src/contracts/store.js'
import { type Build, keyOf, type PodTemplateSpec } from '../../../src/rules/model/resources.js'
import { cutMessage } from '../../../src/rules/model/sizes.js'
import { templateHash } from '../../../src/rules/planning/rollout.js'
import { allInOne, isObject, type Problem, shown } from '../../../src/rules/validation/problem.js'
import { type Fields, objectAt, objectsAt, stringAt } from '../../../src/rules/validation/pod-template.js'
import { quantityOf } from '../../../src/rules/model/quantity.js'
import { readImageName } from '../../shared/image-name.js'
import { apiErrorOf, statusOf } from '../client/api-errors.js'
import type { ApiContext, KubernetesApi } from '../client/api.js'
import { pathOf, pods, typeMetaOf } from '../client/kube-objects.js'
import { isOnHostNetwork, sdkVolumes } from './pod-spec.js'

/**
 * Throws `invalid`, naming the fields. An API server or kubelet rejects every pod of such a template, but only when it is created. A dry
 * run finds more, but not in builds that are written without the API.
 */
export function checkForKubernetes(template: PodTemplateSpec): void {
  const pod = objectAt(template, 'spec')
  const names = new Set<string>()
  const problems = (['containers', 'initContainers'] as const).flatMap((list) =>
    objectsAt(pod, list).flatMap((container, i) => problemsOf(container, `spec.template.spec.${list}[${i}]`, names)),
  )
  const [first, ...others] = problems
  if (!first) return
  const { field, message } = allInOne([first, ...others])
  throw new FleetError('invalid', `${field} ${message}`)
}

const containerName = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/
/** As the API server checks them: with a letter, and no two hyphens in a row. */
const validPortName = /^(?=.*[a-z])(?!.*--)[a-z0-9]([-a-z0-9]{0,13}[a-z0-9])?$/
const minMemoryBytes = 2 ** 20

/** `names`: those of the containers before. */
function problemsOf(container: Fields, at: string, names: Set<string>): readonly Problem[] {
  const problems: Problem[] = []
  const refuse = (field: string, must: string, found: unknown) =>
    problems.push({ field: `${at}.${field}`, message: `${must}, but is ${shown(found)}` })
  const name = stringAt(container, 'name') ?? ''
  if (!containerName.test(name)) {
    refuse('name', 'must be a name of at most 63 lower-case letters, digits and hyphens', container['name'])
  } else if (names.size === names.add(name).size) {
    refuse('name', 'must differ from the name of every other container', name)
  }
  const image = stringAt(container, 'image') ?? ''
  if (image === '') {
    problems.push({ field: `${at}.image`, message: 'is required: it names the image that the container runs' })
  } else if (!readImageName(image)) {
    refuse('image', 'must be an image name such as arena:1 or ghcr.io/studio/arena:1', image)
  }
  for (const [i, port] of objectsAt(container, 'ports').entries()) {
    const given = stringAt(port, 'name') ?? ''
    if (given === '' || validPortName.test(given)) continue
    const must = 'must have at most 15 lower-case letters, digits and single hyphens, and a letter among them'
    refuse(`ports[${i}].name`, must, given)
  }
  const { memory } = objectAt(objectAt(container, 'resources'), 'limits')
  const isGiven = typeof memory === 'string' || typeof memory === 'number'
  const bytes = isGiven ? quantityOf(String(memory)) : 0
  // 0 is no limit. "512m" is half a byte.
  if (bytes !== 0 && !(bytes >= minMemoryBytes)) {
    refuse('resources.limits.memory', 'must be at least 1Mi', memory)
  }
  return problems
}

export interface TemplateProblem {
  /** Names the fields. */
  readonly message: string
  /** True if the cluster drops the fields from every pod, false if it refuses every pod. */
  readonly isDropped: boolean
}

/**
 * Finds unknown fields of the template, or fields that are invalid in every pod. Other rejections are ignored here and reported when a pod
 * is created: quotas change, and a webhook may refuse dry runs.
 */
export async function checkTemplate(
  { api, logger }: Pick<ApiContext, 'api' | 'logger'>,
  namespace: string,
  template: PodTemplateSpec,
): Promise<TemplateProblem | undefined> {
  try {
    const { fields, cause } = await unknownFields(api, namespace, podFrom(template, namespace))
    if (fields.length === 0) return undefined
    return { message: `${fields.map((field) => `spec.template.${field}`).join(', ')}: ${cause}`, isDropped: true }
  } catch (error) {
    const refusal = refusalIn(error)
    if (refusal !== undefined) return { message: refusal, isDropped: false }
    logger.debug({ err: error, namespace }, 'the API server has not checked the template')
    return undefined
  }
}

/** A pod with a name that fits, whatever the cluster adds to it, and with what the fleet sets on every pod. */
function podFrom(template: PodTemplateSpec, namespace: string): { readonly metadata: object; readonly spec: Fields } {
  const { labels, annotations } = objectAt(template, 'metadata')
  const pod = objectAt(template, 'spec')
  const containers = objectsAt(pod, 'containers').map((one) =>
    isOnHostNetwork(template) ? withoutHostPorts(one) : one,
  )
  return {
    ...typeMetaOf(pods),
    metadata: { generateName: 'template-check-', namespace, labels, annotations },
    spec: { ...pod, containers, restartPolicy: 'Never' },
  }
}

/** On the host network, a host port must be the container port, and the fleet sets both. */
function withoutHostPorts(container: Fields): Fields {
  if (container['ports'] === undefined) return container
  return { ...container, ports: objectsAt(container, 'ports').map(({ hostPort: _, ...port }) => port) }
}

/** What the API server says of a template whose pods it always refuses. Undefined for any other failure. */
function refusalIn(error: unknown): string | undefined {
  const refused = apiErrorOf(error)
  if (refused?.status === 400) {
    // Without the excerpt of the sent JSON.
    const [, why] = /cannot be handled as a Pod: (.*?)(?:, error found in [^\n]*)?$/m.exec(refused.message) ?? []
    return why === undefined ? undefined : `spec.template is no pod template that this cluster reads: ${why}`
  }
  if (refused?.status !== 422 || refused.reason !== 'Invalid') return undefined
  const ofTemplate = refused.causes.filter(({ field }) => /^(spec|metadata\.(labels|annotations))\b/.test(field))
  if (ofTemplate.length === 0) return undefined
  return cutMessage(ofTemplate.map(({ field, message }) => `spec.template.${field}: ${message}`).join('; '))
}

interface UnknownFields {
  readonly fields: readonly string[]
  readonly cause: string
}

/**
 * From 1.25 on, the API server names unknown fields itself, if it is asked to be strict. Earlier ones ignore that parameter and drop the
 * fields, so what comes back is compared with what was sent.
 */
async function unknownFields(
  api: KubernetesApi,
  namespace: string,
  body: { readonly spec: Fields },
): Promise<UnknownFields> {
  // Containers of the template may mount what the fleet adds to every pod.
  const volumes = [...objectsAt(body.spec, 'volumes'), ...sdkVolumes('template-check')]
  const sent = { ...body, spec: { ...body.spec, volumes } }
  try {
    const returned = await api.object({
      what: 'check a pod template',
      method: 'POST',
      path: pathOf(pods, { namespace }),
      body: sent,
      query: { dryRun: 'All', fieldValidation: 'Strict' },
    })
    const fields = droppedFields(body.spec, returned['spec'], 'spec')
    // What a strict server has accepted and not returned was removed by a webhook.
    if (fields.length === 0 || (await isStrict(api))) return named([])
    return { fields, cause: `${noSuchField}, or a webhook removes it` }
  } catch (error) {
    const unknown = statusOf(error) === 400 ? [...messageOf(error).matchAll(/unknown field "([^"]+)"/g)] : []
    if (unknown.length === 0) throw error
    return named(unknown.flatMap(([, field]) => field ?? []))
  }
}

const noSuchField = 'pods have no such field in this cluster'

function named(fields: readonly string[]): UnknownFields {
  return { fields, cause: noSuchField }
}

async function isStrict(api: KubernetesApi): Promise<boolean> {
  const version = await api.request({ what: 'read the version', method: 'GET', path: '/version' })
  const [major, minor] = ['major', 'minor'].map((key) =>
    Number.parseInt(stringAt(isObject(version) ? version : {}, key) ?? ''),
  )
  // Of an unknown version, nothing is concluded.
  return !(major === 1 && minor !== undefined && minor < 25)
}

/** Their keys are not names of fields, so the API server drops none of them. */
const maps = new Set([
  'annotations',
  'labels',
  'limits',
  'matchLabels',
  'nodeSelector',
  'options',
  'overhead',
  'requests',
  'volumeAttributes',
])

/** Paths of what was sent and has not come back, as far as it was not a webhook. The API server also drops what is empty. */
export function droppedFields(sent: unknown, returned: unknown, path: string): readonly string[] {
  if (Array.isArray(sent)) {
    if (!Array.isArray(returned)) return []
    return sent.flatMap((each: unknown, i) => droppedFields(each, sameIn(returned, sent, i), `${path}[${i}]`))
  }
  if (!isObject(sent) || !isObject(returned)) return []
  const entries = Object.entries(sent)
  // A webhook that has changed one field may have removed another.
  const isRewritten = entries.some(
    ([key, value]) => typeof value === 'string' && key in returned && returned[key] !== value,
  )
  return entries.flatMap(([key, value]) => {
    if (isEmpty(value)) return []
    if (!(key in returned)) return isRewritten ? [] : [`${path}.${key}`]
    return maps.has(key) ? [] : droppedFields(value, returned[key], `${path}.${key}`)
  })
}

/** The first item of a name is the first of that name in what came back, and so on, unless a webhook has put others among them. */
function sameIn(returned: readonly unknown[], sent: readonly unknown[], index: number): unknown {
  const name = nameOf(sent[index])
  const [before, after] = [sent, returned].map((list) => list.filter((each) => nameOf(each) === name))
  if (!before || before.length !== after?.length) return undefined
  return after[before.indexOf(sent[index])]
}

function nameOf(item: unknown): unknown {
  return isObject(item) ? item['name'] : undefined
}

function isEmpty(value: unknown): boolean {
  if (isObject(value)) return Object.values(value).every(isEmpty)
  return Array.isArray(value) ? value.length === 0 : !value
}

/** Finds fields that pods do not have, or cannot have with these values. Never rejects. */
export type CheckTemplate = (namespace: string, template: PodTemplateSpec) => Promise<TemplateProblem | undefined>

interface TemplateReviewDependencies {
  readonly check: CheckTemplate
  readonly warn: (build: Build, found: TemplateProblem) => void
}

/**
 * Checks the templates of builds that may have been written without the API, such as by `kubectl apply`. They cannot be refused any more, so
 * an Event of the build names the fields that pods do not have, which the cluster drops from every pod, or for which it refuses every pod.
 */
export class TemplateReview {
  readonly #deps: TemplateReviewDependencies
  /** What was checked of each build last. */
  readonly #checked = new Map<string, string>()
  /** One check at a time: each is a call that creates nothing. */
  #last = Promise.resolve()
  #isStopped = false

  constructor(deps: TemplateReviewDependencies) {
    this.#deps = deps
  }

  /** Returns a listener that also reviews what it reports. */
  reviewing(listener: CollectionListener<Build>): CollectionListener<Build> {
    return {
      listed: (all, namespace) => {
        listener.listed(all, namespace)
        for (const { record } of all) this.#see(record)
      },
      changed: (found) => {
        listener.changed(found)
        this.#see(found.record)
      },
      gone: (ref) => {
        listener.gone(ref)
        this.#checked.delete(keyOf(ref))
      },
    }
  }

  stop(): void {
    this.#isStopped = true
  }

  #see(build: Build): void {
    const key = keyOf(build)
    const version = `${build.uid} ${templateHash(build.spec)}`
    if (this.#checked.get(key) === version) return
    this.#checked.set(key, version)
    this.#last = this.#last.then(() => this.#review(build, () => this.#checked.get(key) === version))
  }

  /** Never rejects. */
  async #review(build: Build, isCurrent: () => boolean): Promise<void> {
    const { check, warn } = this.#deps
    if (this.#isStopped || !isCurrent()) return
    const found = await check(build.namespace, build.spec.template)
    if (!found || this.#isStopped || !isCurrent()) return
    const consequence = found.isDropped ? 'its pods are created without it' : 'the cluster refuses its pods'
    warn(build, { ...found, message: `${found.message}; ${consequence}` })
  }
}
