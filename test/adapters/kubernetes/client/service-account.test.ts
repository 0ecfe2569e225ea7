/** A host in a pod connects with its service account. The token comes from the cluster; a directory of the test stands for the mount. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { defaultKubeConfig, serviceAccount } from '../../../../adapters/kubernetes/client/kube-config.js'
import { clusterApi, kubectl, kubectlWith } from '../support/cluster.js'
import { describeOnCluster } from '../support/describe-on-cluster.js'
import { ownNamespace } from '../support/own-namespace.js'

async function mount(files: Readonly<Record<string, string>>): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'service-account-'))
  onTestFinished(() => rm(directory, { recursive: true }))
  for (const [name, text] of Object.entries(files)) await writeFile(join(directory, name), text)
  return directory
}

const inPod = { KUBERNETES_SERVICE_HOST: '10.0.0.1', KUBERNETES_SERVICE_PORT: '443' }
const files = { token: 'secret\n', 'ca.crt': 'certificate', namespace: 'games\n' }

async function authorization(config: ReturnType<typeof serviceAccount>): Promise<unknown> {
  const options = { headers: {} }
  await config?.applyToHTTPSOptions(options)
  return Reflect.get(options.headers, 'Authorization')
}

describe('a service account', () => {
  it('gives the address, namespace and token of the pod', async () => {
    const directory = await mount(files)
    const config = serviceAccount({ env: inPod, home: directory, directory })
    expect(config?.getCurrentCluster()).toEqual({ server: 'https://10.0.0.1:443' })
    expect(config?.getContextObject(config.getCurrentContext())).toEqual({ namespace: 'games' })
    expect(await authorization(config)).toBe('Bearer secret')
  })

  it('is read again each time, because the cluster renews its token', async () => {
    const directory = await mount(files)
    const config = serviceAccount({ env: inPod, home: directory, directory })
    await writeFile(join(directory, 'token'), 'renewed')
    expect(await authorization(config)).toBe('Bearer renewed')
  })

  it('writes an IPv6 address as a URL does', async () => {
    const directory = await mount(files)
    const env = { ...inPod, KUBERNETES_SERVICE_HOST: 'fd00::1' }
    expect(serviceAccount({ env, home: directory, directory })?.getCurrentCluster()?.server).toBe(
      'https://[fd00::1]:443',
    )
  })

  it.each([
    ['outside a pod', { env: {} }],
    ['with KUBECONFIG', { env: { ...inPod, KUBECONFIG: '/etc/config' } }],
  ])('is not used %s', async (_, { env }) => {
    const directory = await mount(files)
    expect(serviceAccount({ env, home: directory, directory })).toBeUndefined()
  })

  it('is not used without a token', async () => {
    const directory = await mount({})
    expect(serviceAccount({ env: inPod, home: directory, directory })).toBeUndefined()
  })
})

describeOnCluster('the API server', () => {
  const namespace = ownNamespace()

  it('knows a host by the service account of its pod', async () => {
    const { server } = defaultKubeConfig().getCurrentCluster() ?? { server: '' }
    const { hostname, port } = new URL(server)
    const path = `/api/v1/namespaces/${namespace()}/serviceaccounts/default/token`
    const request = { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest', spec: {} }
    const created: unknown = JSON.parse(await kubectlWith(JSON.stringify(request), 'create', '--raw', path, '-f', '-'))
    const token = String(Reflect.get(Object(Reflect.get(Object(created), 'status')), 'token'))
    const ca = await kubectl(
      'config',
      'view',
      '--raw',
      '--minify',
      '-o',
      'jsonpath={.clusters[0].cluster.certificate-authority-data}',
    )
    const directory = await mount({
      ...files,
      token,
      'ca.crt': Buffer.from(ca, 'base64').toString(),
      namespace: namespace(),
    })
    const env = { KUBERNETES_SERVICE_HOST: hostname, KUBERNETES_SERVICE_PORT: port }
    const config = serviceAccount({ env, home: directory, directory })
    const api = clusterApi(config)
    onTestFinished(() => api.close())
    const pods = `/api/v1/namespaces/${namespace()}/pods`
    await expect(api.request({ what: 'list pods', method: 'GET', path: pods })).rejects.toThrow(
      `system:serviceaccount:${namespace()}:default`,
    )
  })
})
