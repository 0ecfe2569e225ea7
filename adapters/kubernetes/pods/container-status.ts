/** Finds container statuses in a pod. Pure. */
import type { Identity } from './labels.js'
import type { ContainerStatus, Pod } from './pod-objects.js'

/** The status of the game server's container. */
export function gameStatusOf({ status }: Pod, { container }: Identity): ContainerStatus | undefined {
  return status?.containerStatuses?.find(({ name }) => name === container)
}

export function failedInitContainerOf({ status }: Pod): ContainerStatus | undefined {
  if (status?.phase !== 'Failed') return undefined
  return status.initContainerStatuses?.find(({ state }) => (state?.terminated?.exitCode ?? 0) !== 0)
}

/** Whether no container in the pod has run yet. None can run before the pod's SDK secret exists. */
export function isUnstarted({ status }: Pod): boolean {
  if (status?.phase !== undefined && status.phase !== 'Pending') return false
  const all = [...(status?.initContainerStatuses ?? []), ...(status?.containerStatuses ?? [])]
  return all.every(({ state }) => !state?.running && !state?.terminated)
}
