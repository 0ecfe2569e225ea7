/**
 * Checks a build's template with a dry run, since only the API server knows the fields of its version and their rules. Without the check,
 * it would silently drop a misspelled field such as `nodeSelectr`, and refuse every pod of a template with an invalid one.
 */
import { messageOf } from '../../../src/contracts/errors.js'
import type { Logger } from '../../../src/contracts/logger.js'
import type { PodTemplateSpec } from '../../../src/rules/model/resources.js'
import { cutMessage } from '../../../src/rules/model/sizes.js'
import { isObject } from '../../../src/rules/validation/problem.js'
import { type Fields, objectAt, objectsAt } from '../../../src/rules/validation/template-shape.js'
import { apiErrorOf, statusOf } from '../client/api-errors.js'
import type { KubernetesApi } from '../client/api.js'
import { textAt } from '../client/fields.js'
import { pathOf, pods, typeMetaOf } from '../client/kube-objects.js'
import { sdkVolumes } from './sdk-files.js'
import { isOnHostNetwork } from './template.js'

export interface TemplateCheckDependencies {
  readonly api: KubernetesApi
  readonly logger: Logger
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
  { api, logger }: TemplateCheckDependencies,
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
    Number.parseInt(textAt(isObject(version) ? version : {}, key) ?? ''),
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
