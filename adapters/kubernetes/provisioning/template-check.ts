/**
 * Has the API server check a build's template, without creating a pod: only it knows its fields. A misspelled one, such as `nodeSelectr`,
 * would otherwise be dropped without a word.
 */
import { FleetError, messageOf } from '../../../src/contracts/errors.js'
import type { Logger } from '../../../src/contracts/logger.js'
import type { PodTemplateSpec } from '../../../src/rules/model/resources.js'
import { isObject } from '../../../src/rules/validation/problem.js'
import { objectAt } from '../../../src/rules/validation/template-shape.js'
import { statusOf } from '../client/api-errors.js'
import type { KubernetesApi } from '../client/api.js'
import { pathOf, pods, typeMetaOf } from '../client/kube-objects.js'

export interface TemplateCheckDependencies {
  readonly api: KubernetesApi
  readonly logger: Logger
}

/**
 * Throws `invalid`, naming the fields, if pods have no such fields. Whatever else the API server has to say, it says when a pod is
 * created: quotas change, and a webhook may refuse dry runs.
 */
export async function checkTemplate(
  { api, logger }: TemplateCheckDependencies,
  namespace: string,
  template: PodTemplateSpec,
): Promise<void> {
  // A name that fits, whatever the cluster adds to it, and what the fleet sets on every pod.
  const spec = { ...objectAt(template, 'spec'), restartPolicy: 'Never' }
  const body = { ...typeMetaOf(pods), metadata: { generateName: 'template-check-', namespace }, spec }
  const unknown = await unknownFields(api, namespace, body).catch((error: unknown) => {
    logger.debug({ err: error, namespace }, 'the API server has not checked the template')
    return []
  })
  if (unknown.length === 0) return
  const fields = unknown.map((field) => `spec.template.${field}`).join(', ')
  throw new FleetError('invalid', `${fields}: pods have no such field in this cluster`)
}

/**
 * From 1.25 on, the API server names unknown fields itself, if it is asked to be strict. Earlier ones ignore that parameter and drop the
 * fields, so what comes back is compared with what was sent.
 */
async function unknownFields(
  api: KubernetesApi,
  namespace: string,
  body: { readonly spec: object },
): Promise<readonly string[]> {
  try {
    const returned = await api.object({
      ...{ what: 'check a pod template', method: 'POST', path: pathOf(pods, { namespace }), body },
      query: { dryRun: 'All', fieldValidation: 'Strict' },
    })
    return droppedFields(body.spec, returned['spec'], 'spec')
  } catch (error) {
    if (statusOf(error) !== 400) throw error
    return [...messageOf(error).matchAll(/unknown field "([^"]+)"/g)].flatMap(([, field]) => field ?? [])
  }
}

/** Paths of what was sent and has not come back. The API server also drops what is empty. */
export function droppedFields(sent: unknown, returned: unknown, path: string): readonly string[] {
  if (Array.isArray(sent)) {
    if (!Array.isArray(returned) || returned.length < sent.length) return []
    // Containers and volumes that a webhook has put first are found by their names.
    return sent.flatMap((each: unknown, i) => droppedFields(each, sameIn(returned, each, i), `${path}[${i}]`))
  }
  if (!isObject(sent) || !isObject(returned)) return []
  return Object.entries(sent).flatMap(([key, value]) => {
    if (isEmpty(value)) return []
    return key in returned ? droppedFields(value, returned[key], `${path}.${key}`) : [`${path}.${key}`]
  })
}

function sameIn(list: readonly unknown[], sent: unknown, index: number): unknown {
  const name = isObject(sent) ? sent['name'] : undefined
  return name === undefined ? list[index] : list.find((each) => isObject(each) && each['name'] === name)
}

function isEmpty(value: unknown): boolean {
  if (isObject(value)) return Object.values(value).every(isEmpty)
  return Array.isArray(value) ? value.length === 0 : !value
}
