/** The part of @kubernetes/client-node's KubeConfig that this adapter uses, and the loading of the default configuration. */
import type { RequestOptions } from 'node:https'
import { FleetError, messageOf } from '../../../src/contracts/errors.js'
import { loadOptionalPackage, unusablePackage } from '../../../src/platform/optional-package.js'
import { isObject } from '../../../src/rules/validation/problem.js'
import { serviceAccount } from './connections/service-account.js'

/** A cluster's address and credentials. A `KubeConfig` from @kubernetes/client-node satisfies this interface. */
export interface KubeConfigLike {
  getCurrentCluster(): { readonly server: string; readonly proxyUrl?: string | undefined } | null
  getCurrentContext(): string
  getContextObject(name: string): { readonly namespace?: string | undefined } | null
  /** Adds the current headers, certificates and keys to the options; refreshes expired tokens. */
  applyToHTTPSOptions(options: RequestOptions): Promise<void>
}

const packageName = '@kubernetes/client-node'

/**
 * Loads KUBECONFIG, else `~/.kube/config`, else the pod's service account. The last needs no package, which saves a host in a pod about 50 MB
 * of memory.
 */
export function defaultKubeConfig(): KubeConfigLike {
  const ofPod = serviceAccount()
  if (ofPod) return ofPod
  const Config: unknown = Reflect.get(load(), 'KubeConfig')
  if (typeof Config !== 'function') throw unusablePackage(packageName, 'kubernetesBackend')
  let config: unknown
  try {
    config = Reflect.construct(Config, [])
    if (!isKubeConfig(config) || !hasDefault(config)) throw unusablePackage(packageName, 'kubernetesBackend')
    config.loadFromDefault()
  } catch (error) {
    if (FleetError.is(error)) throw error
    throw new FleetError('invalid', `cannot read KUBECONFIG or ~/.kube/config: ${messageOf(error)}`, {
      cause: error,
    })
  }
  if (isPlaceholder(config)) {
    const where = 'set KUBECONFIG, write ~/.kube/config, or run in a pod with a service account'
    throw new FleetError('invalid', `kubernetesBackend: no cluster configured; ${where}`)
  }
  return config
}

export function isKubeConfig(value: unknown): value is KubeConfigLike {
  const calls = ['getCurrentCluster', 'getCurrentContext', 'getContextObject', 'applyToHTTPSOptions']
  return isObject(value) && calls.every((name) => typeof Reflect.get(value, name) === 'function')
}

function load(): object {
  const loaded = loadOptionalPackage(packageName, 'kubernetesBackend')
  if (typeof loaded === 'object' && loaded !== null) return loaded
  throw unusablePackage(packageName, 'kubernetesBackend')
}

function hasDefault(config: object): config is { loadFromDefault(): void } {
  return 'loadFromDefault' in config && typeof config.loadFromDefault === 'function'
}

/** Detects the package's fallback when it finds no configuration: plain HTTP on localhost. */
function isPlaceholder(config: KubeConfigLike): boolean {
  const cluster = config.getCurrentCluster()
  return (
    cluster === null || (cluster.server === 'http://localhost:8080' && config.getCurrentContext() === 'loaded-context')
  )
}
