/** Host ports of a pod, and whether they are why it cannot be scheduled. Pure. */
import type { Identity } from './labels.js'
import type { Pod } from './pod-objects.js'

/** Host ports that the template itself requests: the fleet cannot choose others. */
export function templateHostPorts({ spec }: Pod, { ports }: Identity): readonly number[] {
  // The scheduler counts the ports of sidecars, which are init containers that are always restarted.
  const sidecars = spec?.initContainers?.filter(({ restartPolicy }) => restartPolicy === 'Always') ?? []
  const requested = [...(spec?.containers ?? []), ...sidecars].flatMap((container) => container.ports ?? [])
  const allocated = new Set(ports.map((port) => port.public))
  return [...new Set(requested.flatMap(({ hostPort }) => hostPort ?? []))].filter((port) => !allocated.has(port))
}

/** On every node that the pod could be scheduled to, other pods use one of its host ports. */
export function isBlockedByHostPorts({ status }: Pod): boolean {
  const scheduled = status?.conditions?.find(({ type }) => type === 'PodScheduled')
  if (scheduled?.status !== 'False') return false
  // The first sentence counts each node once; later ones are about preemption.
  const [, nodes, reasons = ''] =
    /^0\/(\d+) nodes are available: (.*?)(?:\.(?: |$)|$)/s.exec(scheduled.message ?? '') ?? []
  const withoutFreePorts = countOf(reasons, new RegExp(`(\\d+) node\\(s\\) ${noFreePorts}`, 'g'))
  return withoutFreePorts > 0 && withoutFreePorts + countOf(reasons, otherwiseExcluded) >= Number(nodes)
}

export function mentionsHostPorts(schedulerMessage: string): boolean {
  return schedulerMessage.includes(noFreePorts)
}

/** In the scheduler's message. */
const noFreePorts = "didn't have free ports"

/** Nodes that are excluded whatever ports the pod requests. */
const otherwiseExcluded =
  /(\d+) node\(s\) (?:didn't match (?:node selector|Pod's node affinity|the requested)|had (?:untolerated )?taint|were unschedulable)/g

function countOf(text: string, pattern: RegExp): number {
  let sum = 0
  for (const [, count] of text.matchAll(pattern)) sum += Number(count)
  return sum
}
