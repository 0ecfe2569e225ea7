/**
 * `gamekeeper/kubernetes`: runs game servers as pods in a Kubernetes cluster and stores the fleet's records as custom
 * resources.
 */
import type { Backend } from '../../src/contracts/backend.js'
import { KubernetesBackend } from './backend.js'
import { type KubernetesBackendOptions, resolveKubernetesOptions } from './options.js'

export type { PortRange } from '../../src/rules/model/ports.js'
export type { KubeConfigLike } from './client/kube-config.js'
export type { KubernetesBackendOptions } from './options.js'

/**
 * Runs each game server as a pod. The pod has everything in its build's template, plus public ports on its node and the game
 * SDK's configuration. Pods keep running when this host stops and are found again by their labels. Builds, servers and
 * details are stored as custom resources (`crds.yaml`).
 *
 * Needs the package `@kubernetes/client-node`, unless a KubeConfig is given or the service account of a pod is used. Throws `invalid` if an
 * option is invalid or no cluster is configured, and `internal` if the package is missing. Connects on the first call, which rejects with
 * `unavailable` if the cluster does not respond.
 */
export function kubernetesBackend(options: KubernetesBackendOptions = {}): Backend {
  return new KubernetesBackend(resolveKubernetesOptions(options))
}
