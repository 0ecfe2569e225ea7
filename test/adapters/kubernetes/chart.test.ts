/** The Helm chart on a cluster: installed, used, upgraded and uninstalled as docs/guides/kubernetes.md says. */
import { execFile } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { Allocation } from 'gamekeeper'
import { afterAll, beforeAll, expect, it, vi } from 'vitest'
import { describeWith } from '../../examples/with-program.js'
import { root } from '../../package/sources.js'
import { clusterApi, kubectl, kubectlWith, makeNamespace, namespaceName, removeNamespace } from './support/cluster.js'
import { describeOnCluster } from './support/describe-on-cluster.js'
import { makeExampleImages } from './support/example-images.js'
import { sayTcp } from './support/support.js'

const run = promisify(execFile)
const waitOptions = { timeout: 60_000, interval: 500 }
const chart = join(root, 'examples/kubernetes/chart')

describeWith('helm', describeOnCluster)('the Helm chart on a cluster', () => {
  const api = clusterApi()
  const host = namespaceName()
  let games = ''
  const helm = async (...args: readonly string[]) =>
    (await run('helm', [...args, '--namespace', host], { maxBuffer: 64 * 1024 * 1024 })).stdout

  beforeAll(async () => {
    await makeExampleImages()
    games = await makeNamespace(api)
  }, 280_000)
  afterAll(async () => {
    await helm('uninstall', 'gamekeeper').catch(() => {}) // The test has, unless it failed.
    await removeNamespace(api, host)
    await removeNamespace(api, games)
    api.close()
  })

  const tokens = async (): Promise<Readonly<Record<string, string>>> => {
    const { data }: { readonly data: Record<string, string> } = JSON.parse(
      await kubectl('get', 'secret', '-n', host, 'gamekeeper-tokens', '-o', 'json'),
    )
    return Object.fromEntries(
      Object.entries(data).map(([role, value]) => [role, Buffer.from(value, 'base64').toString()]),
    )
  }
  const call = async (service: string, port: number, path: string, token: string | undefined, body?: object) => {
    const field = 'jsonpath={.spec.clusterIP}'
    const address = await kubectl('get', 'svc', '-n', host, `gamekeeper-${service}`, '-o', field)
    return fetch(`http://${address}:${port}${path}`, {
      signal: AbortSignal.timeout(20_000),
      headers: { ...(token !== undefined && { authorization: `Bearer ${token}` }) },
      ...(body !== undefined && { method: 'POST', body: JSON.stringify(body) }),
    })
  }
  const allocate = (token: string | undefined, sessionID: string) =>
    call('allocation', 5000, '/api/v1/allocate?wait=10', token, {
      ...{ buildID: '85ffe8da-c82f-4035-86c5-9d2b5f42d6f5', sessionID },
    })

  it('installs, allocates, is upgraded while a match goes on, and leaves nothing', { timeout: 240_000 }, async () => {
    const settings = ['--set', `namespaces={${games}}`, '--set', 'portRange=25900-25949']
    const notes = await helm('install', 'gamekeeper', chart, '--create-namespace', '--wait', ...settings)
    expect(notes).toContain(`http://gamekeeper-allocation.${host}:5000`)
    expect(await kubectl('get', 'pdb', '-n', games, '-o', 'name')).toContain('matches')
    const build = await readFile(join(root, 'examples/kubernetes/more/arena.yaml'), 'utf8')
    await kubectlWith(build.replace('namespace: default', `namespace: ${games}`), 'apply', '-f', '-')
    await vi.waitFor(async () => {
      expect(await kubectl('get', 'gsb', '-n', games, '--no-headers')).toMatch(/^arena +2\/2 +0 +0 +Healthy/)
    }, waitOptions)

    const sessionID = randomUUID()
    const { allocate: token, manage } = await tokens()
    expect((await allocate(undefined, sessionID)).status).toBe(401)
    const answer = await allocate(token, sessionID)
    expect(answer.status).toBe(200)
    const allocation: Allocation = JSON.parse(await answer.text())
    const say = () => sayTcp(allocation.IPV4Address, Number(allocation.Ports.split(':')[1]), 'hello bob')
    await vi.waitFor(async () => expect(await say()).toContain(`session ${sessionID}`), waitOptions)
    const builds = await call('management', 5001, '/api/v1/gameserverbuilds', manage)
    expect(await builds.text()).toContain('"name":"arena"')

    await helm('upgrade', 'gamekeeper', chart, '--reuse-values', '--wait', '--set', 'env.REGION=eu')
    expect(await kubectl('get', 'deployment', '-n', host, 'gamekeeper', '-o', 'yaml')).toContain('REGION')
    expect((await tokens())['allocate']).toBe(token)
    await vi.waitFor(async () => {
      const again = await allocate(token, sessionID)
      expect(await again.json()).toEqual(allocation)
    }, waitOptions)
    expect(await say()).toContain(`session ${sessionID}`)

    await kubectl('delete', 'gsb', '--all', '--cascade=orphan', '-n', games)
    await vi.waitFor(
      async () => expect(await kubectl('get', 'gs,pods', '-n', games, '-o', 'name')).toBe(''),
      waitOptions,
    )
    await helm('uninstall', 'gamekeeper')
    const kinds = 'all,secrets,serviceaccounts,pdb,roles,rolebindings,clusterroles,clusterrolebindings'
    const ours = 'app.kubernetes.io/instance=gamekeeper'
    await vi.waitFor(async () => {
      for (const namespace of [host, games]) {
        expect(await kubectl('get', kinds, '-n', namespace, '-l', ours, '-o', 'name')).toBe('')
      }
    }, waitOptions)
  })
})
