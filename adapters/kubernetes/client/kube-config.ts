/** What is needed of the KubeConfig of @kubernetes/client-node, and how it is loaded when the host brings none. */
import { createRequire } from 'node:module'
import type { RequestOptions } from 'node:https'
import { FleetError, messageOf } from '../../../src/contracts/errors.js'
import { isObject } from '../../../src/rules/validation/problem.js'

/** Where the cluster is and how to be let in: a `KubeConfig` of @kubernetes/client-node is one. */
export interface KubeConfigLike {
  getCurrentCluster(): { readonly server: string; readonly proxyUrl?: string | undefined } | null
  getCurrentContext(): string
  getContextObject(name: string): { readonly namespace?: string | undefined } | null
  /** Adds headers, certificates and keys as they are now: tokens that have expired are fetched anew. */
  applyToHTTPSOptions(options: RequestOptions): Promise<void>
}

const install = 'npm install @kubernetes/client-node'

/** As `kubectl` does: KUBECONFIG, else ~/.kube/config; and in a pod without either, its service account. */
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
    throw new FleetError('invalid', `KUBECONFIG or ~/.kube/config cannot be read: ${messageOf(error)}`, {
      cause: error,
    })
  }
  if (isNowhere(config)) {
    const where = 'set KUBECONFIG, write ~/.kube/config, or run in a pod with a service account'
    throw new FleetError('invalid', `kubernetesBackend finds no cluster: ${where}`)
  }
  return config
}

export function isKubeConfig(value: unknown): value is KubeConfigLike {
  const calls = ['getCurrentCluster', 'getCurrentContext', 'getContextObject', 'applyToHTTPSOptions']
  return isObject(value) && calls.every((name) => typeof Reflect.get(value, name) === 'function')
}

function load(): object {
  // The build gives each module format its own way to find packages.
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

/** What the package makes up when it finds nothing: a server that speaks plain HTTP on this machine, for nobody. */
function isNowhere(config: KubeConfigLike): boolean {
  const cluster = config.getCurrentCluster()
  return (
    cluster === null || (cluster.server === 'http://localhost:8080' && config.getCurrentContext() === 'loaded-context')
  )
}

function unusable(): FleetError {
  const message = 'kubernetesBackend cannot use the package @kubernetes/client-node that is installed'
  return new FleetError('internal', `${message}: ${install}@latest`)
}
