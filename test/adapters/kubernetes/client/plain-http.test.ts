/** A kubeconfig whose server is a plain HTTP address, as with `kubectl proxy`. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createFleet } from 'gamekeeper'
import { kubernetesBackend } from 'gamekeeper/kubernetes'
import { expect, it, onTestFinished, vi } from 'vitest'
import { silentLogger } from '../../../../src/contracts/logger.js'
import { until } from '../../../e2e/until.js'
import { describeOnCluster } from '../support/describe-on-cluster.js'
import { ownNamespace } from '../support/own-namespace.js'
import { nextRange } from '../support/support.js'

/** Starts `kubectl proxy` on a free port, and returns its address. */
async function kubectlProxy(): Promise<string> {
  const proxy = spawn('kubectl', ['proxy', '--port=0'], { stdio: ['ignore', 'pipe', 'inherit'] })
  onTestFinished(async () => {
    const exited = once(proxy, 'exit')
    proxy.kill()
    await exited
  })
  let said = ''
  proxy.stdout.setEncoding('utf8').on('data', (part: string) => (said += part))
  const [, address] = await until('the proxy listens', () => /Starting to serve on (\S+:\d+)/.exec(said) ?? undefined)
  return `http://${address}`
}

describeOnCluster('a kubeconfig with a plain HTTP server', () => {
  const space = ownNamespace()

  it('works, as with kubectl', { timeout: 300_000 }, async () => {
    const server = await kubectlProxy()
    const folder = await mkdtemp(join(tmpdir(), 'gamekeeper-kubeconfig-'))
    onTestFinished(() => rm(folder, { recursive: true }))
    const file = join(folder, 'config')
    const config = {
      ...{ apiVersion: 'v1', kind: 'Config', 'current-context': 'proxied', users: [] },
      clusters: [{ name: 'proxied', cluster: { server } }],
      contexts: [{ name: 'proxied', context: { cluster: 'proxied', user: '' } }],
    }
    await writeFile(file, JSON.stringify(config))
    vi.stubEnv('KUBECONFIG', file)
    onTestFinished(() => void vi.unstubAllEnvs())

    const options = { namespaces: [space()], portRange: nextRange(10), leaseMs: 15_000 }
    const backend = kubernetesBackend({ ...options, logger: silentLogger })
    const fleet = await createFleet({ backend, agent: { external: '192.0.2.1:56001' }, logger: silentLogger })
    onTestFinished(() => fleet.close())
    await until('it leads', () => fleet.builds.list().then(() => true))
    const template = { spec: { containers: [{ name: 'game', image: 'arena:1' }] } }
    const spec = { buildID: 'proxied', standingBy: 1, max: 1, portsToExpose: [7777], template }
    await fleet.builds.create({ metadata: { namespace: space(), name: 'proxied' }, spec })
    await until('a pod is created', async () => (await fleet.builds.list())[0]?.status.currentPending === 1)
    expect((await fleet.health()).backend).toBe(true)
  })
})
