/** Determines a pod's host ports and whether they prevent it from being scheduled. Pure. */
import type { Identity } from './labels.js'
import type { Pod } from './pod-objects.js'

/** Host ports that the template itself requests. The fleet cannot choose others instead. */
export function templateHostPorts({ spec }: Pod, { ports }: Identity): readonly number[] {
  // The scheduler also counts ports of sidecars, which are init containers with restart policy `Always`.
  const sidecars = spec?.initContainers?.filter(({ restartPolicy }) => restartPolicy === 'Always') ?? []
  const requested = [...(spec?.containers ?? []), ...sidecars].flatMap((container) => container.ports ?? [])
  const allocated = new Set(ports.map((port) => port.public))
  return [...new Set(requested.flatMap(({ hostPort }) => hostPort ?? []))].filter((port) => !allocated.has(port))
}

/** Whether, on every node that the pod could be scheduled to, other pods already use one of its host ports. */
export function isBlockedByHostPorts({ status }: Pod): boolean {
  const scheduled = status?.conditions?.find(({ type }) => type === 'PodScheduled')
  if (scheduled?.status !== 'False') return false
  // The message's first sentence counts each node once; later sentences are about preemption.
  const [, nodes, reasons = ''] =
    /^0\/(\d+) nodes are available: (.*?)(?:\.(?: |$)|$)/s.exec(scheduled.message ?? '') ?? []
  const withoutFreePorts = countOf(reasons, new RegExp(`(\\d+) node\\(s\\) ${noFreePorts}`, 'g'))
  return withoutFreePorts > 0 && withoutFreePorts + countOf(reasons, otherwiseExcluded) >= Number(nodes)
}

export function mentionsHostPorts(schedulerMessage: string): boolean {
  return schedulerMessage.includes(noFreePorts)
}

/** Whether an event says that another program holds a port or an address of the pod. */
export function mentionsTakenPort(event: string): boolean {
  return /port is already allocated|address already in use|ports are not available|cannot open hostport/i.test(event)
}

/** The public ports that, according to an event of the pod, another program on its node holds. */
export function refusedPortsIn(event: string, { ports }: Identity): readonly number[] {
  if (!mentionsTakenPort(event)) return []
  const isNamed = (port: number) => new RegExp(`(?<![-\\w.])${port}(?!\\w)`).test(event)
  return ports.map((port) => port.public).filter(isNamed)
}

/** Text in the scheduler's message. */
const noFreePorts = "didn't have free ports"

/** Nodes excluded for reasons other than the requested ports. */
const otherwiseExcluded =
  /(\d+) node\(s\) (?:didn't match (?:node selector|Pod's node affinity|the requested)|had (?:untolerated )?taint|were unschedulable)/g

function countOf(text: string, pattern: RegExp): number {
  let sum = 0
  for (const [, count] of text.matchAll(pattern)) sum += Number(count)
  return sum
}
