/**
 * The cluster and credentials of a pod: Kubernetes puts the API server's address into its environment, and a token and the cluster's
 * certificate into files. Reads nothing else.
 */
import { existsSync, readFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { isIPv6 } from 'node:net'
import { homedir } from 'node:os'
import { join } from 'node:path'
import type { KubeConfigLike } from '../kube-config.js'

/** Where pods that mount a service account find it. */
const mountPath = '/var/run/secrets/kubernetes.io/serviceaccount'
const context = 'service-account'

export interface PodEnvironment {
  readonly env: Readonly<Record<string, string | undefined>>
  readonly home: string
  /** Directory with the files `token`, `ca.crt` and `namespace`. */
  readonly directory: string
}

const ownEnvironment = (): PodEnvironment => ({ env: process.env, home: homedir(), directory: mountPath })

/**
 * Returns the configuration of this pod. Undefined outside pods, in pods without a service account, and where a kubeconfig exists, which
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
