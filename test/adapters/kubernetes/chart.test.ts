/** The Helm chart on a cluster: installed, used, upgraded and uninstalled by the commands that docs/guides/kubernetes.md prints. */
import { execFile } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { cp, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { Allocation } from 'gamekeeper'
import { afterAll, beforeAll, expect, it, vi } from 'vitest'
import { describeWith } from '../../examples/with-program.js'
import { blocks, fileOf } from '../../package/pages.js'
import { root } from '../../package/sources.js'
import { clusterApi, kubectl, makeNamespace, namespaceName, removeNamespace } from './support/cluster.js'
import { installDefinitions } from './support/definitions.js'
import { describeOnCluster } from './support/describe-on-cluster.js'
import { makeExampleImages } from './support/example-images.js'
import { sayTcp } from './support/support.js'

const run = promisify(execFile)
const waitOptions = { timeout: 180_000, interval: 500 }
const page = 'docs/guides/kubernetes.md'
const portRange = '25900-25949'

describeWith('helm', describeOnCluster)('the Helm chart on a cluster', () => {
  const api = clusterApi()
  const host = namespaceName()
  let games = ''
  let folder = ''

  beforeAll(async () => {
    await makeExampleImages()
    // Helm leaves those that an earlier version has installed.
    await installDefinitions()
    games = await makeNamespace(api)
    folder = await mkdtemp(join(tmpdir(), 'gamekeeper-chart-'))
    await cp(join(root, 'examples'), join(folder, 'examples'), { recursive: true })
    const values = blocks(page, 'yaml').find((text) => fileOf(text) === 'values.yaml') ?? ''
    const own = `namespaces: [${games}]\nportRange: ${portRange}\nenv: { REGION: eu }\nnetworkPolicy: { enabled: true }\n`
    await writeFile(join(folder, 'values.yaml'), `${values}${own}`)
  }, 280_000)
  afterAll(async () => {
    // The test has uninstalled it, unless it failed.
    await run('helm', ['uninstall', 'gamekeeper', '--namespace', host]).catch(() => {})
    await removeNamespace(api, host).catch(() => {})
    await removeNamespace(api, games)
    api.close()
    await rm(folder, { recursive: true })
  })

  /**
   * Runs the command of the page that begins so, and returns its output. The namespaces have other names, and the definitions, which other
   * tests use, are not really deleted.
   */
  const printed = async (begin: string, more = ''): Promise<string> => {
    const commands = blocks(page, 'sh').flatMap((text) => text.trimEnd().split('\n'))
    const command = commands.find((line) => line.startsWith(begin))
    if (command === undefined) throw new Error(`${page} has no command that begins with ${begin}`)
    const line = command
      .replace(/(--namespace|delete namespace) gamekeeper/, `$1 ${host}`)
      .replace('--namespace default', `--namespace ${games}`)
      .replace(/ (?:gsb\/arena|\S+arena\.yaml)$/, `$& --namespace ${games}`)
      .replace(/^kubectl get gamekeeper$/, `$& --namespace ${games}`)
      .replace(/^kubectl delete -f .*$/, '$& --dry-run=server')
    return (await run('sh', ['-c', `${line} ${more}`], { cwd: folder, maxBuffer: 64 * 1024 * 1024 })).stdout
  }

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
      signal: AbortSignal.timeout(90_000),
      headers: { ...(token !== undefined && { authorization: `Bearer ${token}` }) },
      ...(body !== undefined && { method: 'POST', body: JSON.stringify(body) }),
    })
  }
  const allocate = (token: string | undefined, sessionID: string) =>
    call('allocation', 5000, '/api/v1/allocate?wait=60', token, {
      ...{ buildID: '85ffe8da-c82f-4035-86c5-9d2b5f42d6f5', sessionID },
    })

  it('installs, allocates, is upgraded while a match goes on, and leaves nothing', { timeout: 900_000 }, async () => {
    const settings = `--set 'namespaces={${games}}' --set portRange=${portRange}`
    const notes = await printed('helm install', settings)
    expect(notes).toContain(`http://gamekeeper-allocation.${host}:5000`)
    expect(await kubectl('get', 'pdb', '-n', games, '-o', 'name')).toContain('matches')
    await printed('kubectl apply -f examples/kubernetes/more/arena.yaml')
    expect(await printed('kubectl wait --for=condition=Ready')).toContain('arena condition met')
    expect(await printed('kubectl get gamekeeper')).toMatch(/^gameserverbuild\S+arena +2\/2 +0 +0 +Healthy +True/m)

    const sessionID = randomUUID()
    const { allocate: token, manage } = await tokens()
    expect(await printed('kubectl get secret')).toBe(manage)
    expect((await allocate(undefined, sessionID)).status).toBe(401)
    const answer = await allocate(token, sessionID)
    expect(answer.status).toBe(200)
    const allocation: Allocation = JSON.parse(await answer.text())
    const say = () => sayTcp(allocation.IPV4Address, Number(allocation.Ports.split(':')[1]), 'hello bob')
    await vi.waitFor(async () => expect(await say()).toContain(`session ${sessionID}`), waitOptions)
    const builds = await call('management', 5001, '/api/v1/gameserverbuilds', manage)
    expect(await builds.text()).toContain('"name":"arena"')

    await printed('kubectl apply -f examples/kubernetes/chart/crds')
    await printed('helm upgrade')
    expect(await kubectl('get', 'deployment', '-n', host, 'gamekeeper', '-o', 'yaml')).toContain('REGION')
    expect(await kubectl('get', 'ingress', '-n', host, 'gamekeeper', '-o', 'yaml')).toContain('allocate.example.com')
    expect(await kubectl('get', 'networkpolicy', '-n', host, '-o', 'name')).toContain('gamekeeper')
    expect((await tokens())['allocate']).toBe(token)
    await vi.waitFor(async () => {
      const again = await allocate(token, sessionID)
      expect(await again.json()).toEqual(allocation)
    }, waitOptions)
    expect(await say()).toContain(`session ${sessionID}`)

    // New hosts that may not read the Lease are never ready, so the old ones stay, and allocate.
    const deployment = ['-n', host, 'deployment/gamekeeper'] as const
    await kubectl('set', 'env', ...deployment, `SYSTEM_NAMESPACE=${games}`)
    await expect(kubectl('rollout', 'status', ...deployment, '--timeout=15s')).rejects.toThrow('timed out')
    const ready = () => kubectl('get', ...deployment, '-o', 'jsonpath={.status.readyReplicas}')
    await vi.waitFor(async () => expect(await ready()).toBe('2'), waitOptions)
    expect(await (await allocate(token, sessionID)).json()).toEqual(allocation)
    await kubectl('rollout', 'undo', ...deployment)
    await kubectl('rollout', 'status', ...deployment, '--timeout=180s')

    // The new hosts are heard at the address of the old ones, and the match goes on.
    const agent = () => kubectl('get', 'svc', '-n', host, 'gamekeeper-agent', '-o', 'jsonpath={.spec.clusterIP}')
    const address = await agent()
    await printed('helm uninstall')
    await printed('helm install', settings)
    expect(await agent()).toBe(address)
    await vi.waitFor(async () => {
      const again = await allocate((await tokens())['allocate'], sessionID)
      expect(await again.json()).toEqual(allocation)
    }, waitOptions)

    await printed('kubectl delete gsb --all')
    await vi.waitFor(async () => expect(await printed('kubectl get gs,pods', '-o name')).toBe(''), waitOptions)
    await printed('helm uninstall')
    await printed('kubectl delete service')
    const kinds =
      'all,ingresses,networkpolicies,secrets,serviceaccounts,pdb,roles,rolebindings,clusterroles,clusterrolebindings'
    const ours = 'app.kubernetes.io/instance=gamekeeper'
    await vi.waitFor(async () => {
      for (const namespace of [host, games]) {
        expect(await kubectl('get', kinds, '-n', namespace, '-l', ours, '-o', 'name')).toBe('')
      }
    }, waitOptions)
    await printed('kubectl delete namespace')
    expect(await printed('kubectl delete -f examples/kubernetes/chart/crds')).toContain('gameserverbuilds')
  })
})
