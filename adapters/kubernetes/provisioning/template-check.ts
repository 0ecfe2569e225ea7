/**
 * Checks a build's template with a dry run, since only the API server knows the fields of its version. Without the check, it would
 * silently drop a misspelled field such as `nodeSelectr`.
 */
import { FleetError, messageOf } from '../../../src/contracts/errors.js'
import type { Logger } from '../../../src/contracts/logger.js'
import type { PodTemplateSpec } from '../../../src/rules/model/resources.js'
import { isObject } from '../../../src/rules/validation/problem.js'
import { objectAt } from '../../../src/rules/validation/template-shape.js'
import { statusOf } from '../client/api-errors.js'
import type { KubernetesApi } from '../client/api.js'
import { textAt } from '../client/fields.js'
import { pathOf, pods, typeMetaOf } from '../client/kube-objects.js'

export interface TemplateCheckDependencies {
  readonly api: KubernetesApi
  readonly logger: Logger
}

/**
 * Throws `invalid`, naming the fields, if the template contains unknown fields. Other rejections are ignored here and reported when a pod
 * is created: quotas change, and a webhook may refuse dry runs.
 */
export async function checkTemplate(
  { api, logger }: TemplateCheckDependencies,
  namespace: string,
  template: PodTemplateSpec,
): Promise<void> {
  // A name that fits, whatever the cluster adds to it, and what the fleet sets on every pod.
  const spec = { ...objectAt(template, 'spec'), restartPolicy: 'Never' }
  const body = { ...typeMetaOf(pods), metadata: { generateName: 'template-check-', namespace }, spec }
  const { fields, cause } = await unknownFields(api, namespace, body).catch((error: unknown) => {
    logger.debug({ err: error, namespace }, 'the API server has not checked the template')
    return named([])
  })
  if (fields.length === 0) return
  throw new FleetError('invalid', `${fields.map((field) => `spec.template.${field}`).join(', ')}: ${cause}`)
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
  body: { readonly spec: object },
): Promise<UnknownFields> {
  try {
    const returned = await api.object({
      ...{ what: 'check a pod template', method: 'POST', path: pathOf(pods, { namespace }), body },
      query: { dryRun: 'All', fieldValidation: 'Strict' },
    })
    const fields = droppedFields(body.spec, returned['spec'], 'spec')
    // What a strict server has accepted and not returned was removed by a webhook.
    if (fields.length === 0 || (await isStrict(api))) return named([])
    return { fields, cause: 'pods have no such field in this cluster, or a webhook removes it' }
  } catch (error) {
    if (statusOf(error) !== 400) throw error
    return named([...messageOf(error).matchAll(/unknown field "([^"]+)"/g)].flatMap(([, field]) => field ?? []))
  }
}

function named(fields: readonly string[]): UnknownFields {
  return { fields, cause: 'pods have no such field in this cluster' }
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
