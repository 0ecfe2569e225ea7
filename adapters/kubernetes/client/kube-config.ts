/** The part of @kubernetes/client-node's KubeConfig that this adapter uses, and how the default one is loaded. */
import { createRequire } from 'node:module'
import type { RequestOptions } from 'node:https'
import { FleetError, messageOf } from '../../../src/contracts/errors.js'
import { isObject } from '../../../src/rules/validation/problem.js'

/** Address of and credentials for a cluster; a `KubeConfig` of @kubernetes/client-node satisfies it. */
export interface KubeConfigLike {
  getCurrentCluster(): { readonly server: string; readonly proxyUrl?: string | undefined } | null
  getCurrentContext(): string
  getContextObject(name: string): { readonly namespace?: string | undefined } | null
  /** Adds current headers, certificates and keys; refreshes expired tokens. */
  applyToHTTPSOptions(options: RequestOptions): Promise<void>
}

const install = 'npm install @kubernetes/client-node'

/** KUBECONFIG, else ~/.kube/config, else the pod's service account. */
export function defaultKubeConfig(): KubeConfigLike {
  const Config: unknown = Reflect.get(load(), 'KubeConfig')
  if (typeof Config !== 'function') throw unusable()
  let config: unknown
  try {
    config = Reflect.construct(Config, [])
    if (!isKubeConfig(config) || !hasDefault(config)) throw unusable()
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
  // `__filename` exists in the CommonJS build only.
  const here = typeof __filename === 'string' ? __filename : import.meta.url
  let loaded: unknown
  try {
    loaded = createRequire(here)('@kubernetes/client-node')
  } catch (error) {
    const isMissing = error instanceof Error && 'code' in error && error.code === 'MODULE_NOT_FOUND'
    const why = isMissing ? 'is not installed' : `cannot be loaded (${messageOf(error)})`
    const message = `kubernetesBackend needs the package @kubernetes/client-node, which ${why}: ${install}`
    throw new FleetError('internal', message, { cause: error })
  }
  if (typeof loaded === 'object' && loaded !== null) return loaded
  throw unusable()
}

function hasDefault(config: object): config is { loadFromDefault(): void } {
  return 'loadFromDefault' in config && typeof config.loadFromDefault === 'function'
}

/** What the package falls back to when it finds no configuration: plain HTTP on localhost. */
function isPlaceholder(config: KubeConfigLike): boolean {
  const cluster = config.getCurrentCluster()
  return (
    cluster === null || (cluster.server === 'http://localhost:8080' && config.getCurrentContext() === 'loaded-context')
  )
}

function unusable(): FleetError {
  const message = 'kubernetesBackend does not support the installed version of @kubernetes/client-node'
  return new FleetError('internal', `${message}: ${install}@latest`)
}
