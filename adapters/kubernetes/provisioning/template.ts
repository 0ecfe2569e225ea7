/** Reads the parts of a build's template that determine how its pod is built. Pure. */
import type { InstanceSpec } from '../../../src/contracts/backend.js'
import { FleetError } from '../../../src/contracts/errors.js'
import type { PodTemplateSpec } from '../../../src/rules/model/resources.js'
import { objectAt, objectsAt, stringAt } from '../../../src/rules/validation/template-shape.js'
import { containerAnnotation } from '../pods/labels.js'

/** Name of the game server's container: the one named by the template's annotation, or the first container. */
export function gameContainerName(template: PodTemplateSpec): string {
  const named = objectAt(objectAt(template, 'metadata'), 'annotations')[containerAnnotation]
  const names = objectsAt(objectAt(template, 'spec'), 'containers').map(
    (container) => stringAt(container, 'name') ?? '',
  )
  return typeof named === 'string' && names.includes(named) ? named : (names[0] ?? '')
}

/** Throws `invalid`, naming the field. An API server rejects every pod of such a template, but only when it is created. */
export function checkForKubernetes(template: PodTemplateSpec): void {
  const containers = objectsAt(objectAt(template, 'spec'), 'containers')
  const index = containers.findIndex((container) => !stringAt(container, 'image'))
  if (index < 0) return
  const field = `spec.template.spec.containers[${index}].image`
  throw new FleetError('invalid', `${field} is required: it names the image that the container runs`)
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
