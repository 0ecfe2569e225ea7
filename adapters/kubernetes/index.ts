/** `gamekeeper/kubernetes`: game servers as pods of a Kubernetes cluster, with the fleet's records as custom resources. */
import type { Backend } from '../../src/contracts/backend.js'
import { KubernetesBackend } from './backend.js'
import { type KubernetesBackendOptions, resolveKubernetesOptions } from './options.js'

export type { PortRange } from '../../src/rules/model/ports.js'
export type { KubeConfigLike } from './client/kube-config.js'
export type { KubernetesBackendOptions } from './options.js'

/**
 * Runs each game server as a pod: the whole template of its build, plus public ports on its node and the configuration of the
 * game's SDK. Pods outlive this host and are found again by their labels. Builds, servers and details are custom resources
 * (`crds.yaml`), which are the store.
 *
 * Needs the package `@kubernetes/client-node`, unless a KubeConfig is given. Throws `invalid` for a wrong option or when no
 * cluster is configured, and `internal` when the package is missing. Connects with the first call, which rejects with
 * `unavailable` when the cluster does not answer.
 */
export function kubernetesBackend(options: KubernetesBackendOptions = {}): Backend {
  return new KubernetesBackend(resolveKubernetesOptions(options))
}
