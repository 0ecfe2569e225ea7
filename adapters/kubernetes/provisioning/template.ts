/** Reads the parts of a build's template that determine how its pod is built. Pure. */
import type { InstanceSpec } from '../../../src/contracts/backend.js'
import { FleetError } from '../../../src/contracts/errors.js'
import type { PodTemplateSpec } from '../../../src/rules/model/resources.js'
import { allInOne, type Problem, shown } from '../../../src/rules/validation/problem.js'
import { type Fields, objectAt, objectsAt, stringAt } from '../../../src/rules/validation/template-shape.js'
import { readImageName } from '../../shared/image-name.js'
import { quantityOf } from '../../shared/quantity.js'
import { containerAnnotation } from '../pods/labels.js'

/** Name of the game server's container: the one named by the template's annotation, or the first container. */
export function gameContainerName(template: PodTemplateSpec): string {
  const named = objectAt(objectAt(template, 'metadata'), 'annotations')[containerAnnotation]
  const names = objectsAt(objectAt(template, 'spec'), 'containers').map(
    (container) => stringAt(container, 'name') ?? '',
  )
  return typeof named === 'string' && names.includes(named) ? named : (names[0] ?? '')
}

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
const portName = /^(?=.*[a-z])(?!.*--)[a-z0-9]([-a-z0-9]{0,13}[a-z0-9])?$/
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
    if (given === '' || portName.test(given)) continue
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

export function isOnHostNetwork(template: PodTemplateSpec): boolean {
  return objectAt(template, 'spec')['hostNetwork'] === true
}

/** Host ports that the template itself requests, except those that the fleet replaces with its own. */
export function fixedHostPorts({ template, portsToExpose }: InstanceSpec): readonly number[] {
  const pod = objectAt(template, 'spec')
  const containers = [...objectsAt(pod, 'containers'), ...objectsAt(pod, 'initContainers')]
  return containers
    .flatMap((container) => objectsAt(container, 'ports'))
    .filter(({ containerPort }) => !portsToExpose.some((port) => port === containerPort))
    .flatMap(({ containerPort, hostPort = isOnHostNetwork(template) ? containerPort : undefined }) =>
      typeof hostPort === 'number' ? [hostPort] : [],
    )
}
