/** `gamekeeper/kubernetes`: game servers as pods of a Kubernetes cluster, with the fleet's records as custom resources. */
import type { Backend } from '../../src/contracts/backend.js'
import { KubernetesBackend } from './backend.js'
import { type KubernetesBackendOptions, resolveKubernetesOptions } from './options.js'

export type { PortRange } from '../../src/rules/model/ports.js'
export type { KubeConfigLike } from './client/kube-config.js'
export type { KubernetesBackendOptions } from './options.js'

/**
 * Runs each game server as a pod: the build's template whole, with public ports of its node and the configuration of the
 * game's SDK added. Pods outlive this host and are found again by their labels. Builds, servers and details are custom
 * resources (`crds.yaml`), which are the store.
 *
 * Needs the package `@kubernetes/client-node`, unless a KubeConfig is given. Throws `invalid` naming the option, or when
 * there is no cluster to be found, and `internal` when the package is not installed. Speaks to the cluster with its
 * first call; that one rejects with `unavailable` when it does not answer.
 */
export function kubernetesBackend(options: KubernetesBackendOptions = {}): Backend {
  return new KubernetesBackend(resolveKubernetesOptions(options))
}
