/**
 * A cluster's address and credentials: the part of @kubernetes/client-node's KubeConfig that this adapter uses, the default configuration, and
 * the service account of a pod. Reads the environment and files.
 */
import { existsSync, readFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import type { RequestOptions } from 'node:https'
import { isIPv6 } from 'node:net'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { FleetError, messageOf } from '../../../src/contracts/errors.js'
import { loadOptionalPackage, unusablePackage } from '../../../src/platform/packages.js'
import { isObject } from '../../../src/rules/validation/problem.js'

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
  const loaded = loadOptionalPackage(packageName, 'kubernetesBackend')
  const Config: unknown = typeof loaded === 'object' && loaded !== null && Reflect.get(loaded, 'KubeConfig')
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

/** Where pods that mount a service account find it. */
const mountPath = '/var/run/secrets/kubernetes.io/serviceaccount'
const context = 'service-account'

interface PodEnvironment {
  readonly env: Readonly<Record<string, string | undefined>>
  readonly home: string
  /** Directory with the files `token`, `ca.crt` and `namespace`. */
  readonly directory: string
}

const ownEnvironment = (): PodEnvironment => ({ env: process.env, home: homedir(), directory: mountPath })

/**
 * The cluster and credentials of this pod: Kubernetes puts the API server's address into its environment, and a token and the cluster's
 * certificate into files. Undefined outside pods, in pods without a service account, and where a kubeconfig exists, which
 * takes precedence, as with `kubectl`.
 */
export function serviceAccount(environment: PodEnvironment = ownEnvironment()): KubeConfigLike | undefined {
  const { env, home, directory } = environment
  const host = env['KUBERNETES_SERVICE_HOST']
  const port = env['KUBERNETES_SERVICE_PORT'] ?? '443'
  const file = (name: string) => join(directory, name)
  if (!host || env['KUBECONFIG'] || existsSync(join(home, '.kube', 'config')) || !existsSync(file('token'))) {
    return undefined
  }
  const server = `https://${isIPv6(host) ? `[${host}]` : host}:${port}`
  const namespace = existsSync(file('namespace')) ? readFileSync(file('namespace'), 'utf8').trim() : undefined
  return {
    getCurrentCluster: () => ({ server }),
    getCurrentContext: () => context,
    getContextObject: (name) => (name === context ? { namespace } : null),
    async applyToHTTPSOptions(options) {
      // Both files change while the pod runs: tokens are renewed about once an hour.
      const [token, ca] = await Promise.all([readFile(file('token'), 'utf8'), readFile(file('ca.crt'))])
      options.ca = ca
      options.headers = Object.assign({}, options.headers, { Authorization: `Bearer ${token.trim()}` })
    },
  }
}
