/** The Kubernetes cluster that tests run on: the one of KUBECONFIG, and no other that somebody may have at hand. */
import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { promisify } from 'node:util'
import { systemClock } from '../../../../src/contracts/clock.js'
import { KubernetesApi } from '../../../../adapters/kubernetes/client/api.js'
import { defaultKubeConfig } from '../../../../adapters/kubernetes/client/kube-config.js'

const run = promisify(execFile)

/** As its administrator. To be closed. */
export function clusterApi(): KubernetesApi {
  const limits = { requestsPerSecond: 1_000, connections: 64, callTimeoutMs: 20_000 }
  return new KubernetesApi({ config: defaultKubeConfig(), clock: systemClock, ...limits })
}

/** What kubectl prints, run as an operator would; rejects with what it complains of. */
export async function kubectl(...args: readonly string[]): Promise<string> {
  const { stdout } = await run('kubectl', args, { maxBuffer: 64 * 1024 * 1024 })
  return stdout
}

/** The same, with this on its standard input. */
export async function kubectlWith(input: string, ...args: readonly string[]): Promise<string> {
  const running = run('kubectl', args, { maxBuffer: 64 * 1024 * 1024 })
  running.child.stdin?.end(input)
  return (await running).stdout
}

/** That nobody else has. */
export function namespaceName(): string {
  return `gamekeeper-${randomBytes(4).toString('hex')}`
}

/** A namespace of this run's own, ready for pods. */
export async function makeNamespace(api: KubernetesApi, name = namespaceName()): Promise<string> {
  const body = { apiVersion: 'v1', kind: 'Namespace', metadata: { name } }
  await api.request({ what: 'make a namespace', method: 'POST', path: '/api/v1/namespaces', body })
  // Without it no pod is let in.
  const path = `/api/v1/namespaces/${name}/serviceaccounts/default`
  for (let attempt = 1; ; attempt++) {
    try {
      await api.request({ what: 'look for its service account', method: 'GET', path })
      return name
    } catch (error) {
      if (attempt >= 300) throw error
      await api.pause(100)
    }
  }
}

/** Goes on by itself: nobody waits for the last of its pods. */
export async function removeNamespace(api: KubernetesApi, name: string): Promise<void> {
  await api.request({ what: 'remove a namespace', method: 'DELETE', path: `/api/v1/namespaces/${name}` })
}
