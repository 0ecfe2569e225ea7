/** The Kubernetes cluster for tests, always the one that KUBECONFIG names. */
import { execFile, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { promisify } from 'node:util'
import { KubernetesApi } from '../../../../adapters/kubernetes/client/api.js'
import { isAlreadyExists } from '../../../../adapters/kubernetes/client/api-errors.js'
import { defaultKubeConfig, type KubeConfigLike } from '../../../../adapters/kubernetes/client/kube-config.js'
import { systemClock } from '../../../../src/contracts/clock.js'

const run = promisify(execFile)

/** An API client as administrator. The caller closes it. */
export function clusterApi(config: KubeConfigLike = defaultKubeConfig()): KubernetesApi {
  const limits = { requestsPerSecond: 1_000, connections: 64, callTimeoutMs: 20_000 }
  return new KubernetesApi({ config, clock: systemClock, ...limits })
}

/** Resolves with kubectl's output; rejects with its errors. */
export async function kubectl(...args: readonly string[]): Promise<string> {
  const { stdout } = await run('kubectl', args, { maxBuffer: 64 * 1024 * 1024 })
  return stdout
}

/** Like `kubectl`, with standard input. */
export async function kubectlWith(input: string, ...args: readonly string[]): Promise<string> {
  const running = run('kubectl', args, { maxBuffer: 64 * 1024 * 1024 })
  running.child.stdin?.end(input)
  return (await running).stdout
}

/**
 * Opens a shell in a pod. `go` has it run the command at once. Nobody waits for the shell to end: where the command ends its container, the
 * connection to it sometimes stays open for good. `close` ends what is left of it.
 */
export async function execOnCall(
  namespace: string,
  pod: string,
  command: string,
): Promise<{ readonly go: () => void; readonly close: () => void }> {
  const shell = ['exec', '-i', '-n', namespace, pod, '--', 'sh', '-c', `echo ready; read go; ${command}`]
  const running = spawn('kubectl', shell, { stdio: ['pipe', 'pipe', 'inherit'] })
  await once(running.stdout, 'data')
  return { go: () => running.stdin.end('go\n'), close: () => running.kill('SIGKILL') }
}

/** A unique name. */
export function namespaceName(): string {
  return `gamekeeper-${randomBytes(4).toString('hex')}`
}

/**
 * A new namespace, ready for pods: it makes the account that they need, without the token that no game needs. Others would wait for both until a
 * controller has made them.
 */
export async function makeNamespace(api: KubernetesApi, name = namespaceName()): Promise<string> {
  const body = { apiVersion: 'v1', kind: 'Namespace', metadata: { name } }
  await api.request({ what: 'create a namespace', method: 'POST', path: '/api/v1/namespaces', body })
  const path = `/api/v1/namespaces/${name}/serviceaccounts`
  const account = { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name: 'default' } }
  const without = { automountServiceAccountToken: false }
  const what = 'create its service account'
  try {
    await api.request({ what, method: 'POST', path, body: { ...account, ...without } })
  } catch (error) {
    if (!isAlreadyExists(error)) throw error
    await api.request({ what, method: 'PATCH', path: `${path}/default`, body: without })
  }
  return name
}

/** Does not wait until its pods are deleted. */
export async function removeNamespace(api: KubernetesApi, name: string): Promise<void> {
  await api.request({ what: 'delete a namespace', method: 'DELETE', path: `/api/v1/namespaces/${name}` })
}
