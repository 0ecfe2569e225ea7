/** Follows examples/kubernetes: one command starts a fleet, another a build, and the fleet allocates servers. */
import { randomUUID } from 'node:crypto'
import { cp, mkdir, readFile, rm, mkdtemp, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import type { Allocation, GameServer } from 'gamekeeper'
import { afterAll, beforeAll, expect, it, vi } from 'vitest'
import { parseAllDocuments } from 'yaml'
import { blocks, fileOf } from '../../package/pages.js'
import { root } from '../../package/sources.js'
import { clusterApi, execOnCall, kubectl, makeNamespace, namespaceName, removeNamespace } from './support/cluster.js'
import { describeOnCluster } from './support/describe-on-cluster.js'
import { makeExampleImages } from './support/example-images.js'
import { ServiceStream } from './support/service-stream.js'
import { sayTcp, sayUdp } from './support/support.js'

const waitOptions = { timeout: 180_000, interval: 500 }
const at = (path: string) => join(root, path)

describeOnCluster('examples/kubernetes', () => {
  const api = clusterApi()
  const host = namespaceName()
  let games = ''
  let folder = ''

  beforeAll(async () => {
    await makeExampleImages()
    games = await makeNamespace(api)
    // Unchanged except for names that must be unique on the cluster, a third host, and a way to kill one.
    const text = (await readFile(at('examples/kubernetes/gamekeeper.yaml'), 'utf8'))
      .replaceAll(/namespace: gamekeeper$/gm, `namespace: ${host}`)
      .replaceAll(/^( {2}name: )gamekeeper$(?=\n---\napiVersion: v1\nkind: ServiceAccount)/gm, `$1${host}`)
      .replaceAll('gamekeeper-nodes', `${host}-nodes`)
      .replaceAll('namespace: default', `namespace: ${games}`)
      .replaceAll('value: default }', `value: ${games} }`)
      .replaceAll('value: 10000-12000', 'value: 25800-25899')
      .replace('replicas: 2', 'replicas: 3')
      // The first process of a container cannot be killed from inside.
      .replace('serviceAccountName: gamekeeper', 'shareProcessNamespace: true\n      serviceAccountName: gamekeeper')
    folder = await mkdtemp(join(tmpdir(), 'gamekeeper-example-'))
    for (const file of ['kustomization.yaml', 'crds.yaml']) {
      await cp(at(`examples/kubernetes/${file}`), join(folder, file))
    }
    await writeFile(join(folder, 'gamekeeper.yaml'), text)
  }, 280_000)
  afterAll(async () => {
    // The host would create these again, so they are deleted after it.
    await removeNamespace(api, host)
    await removeNamespace(api, games)
    for (const kind of ['clusterroles', 'clusterrolebindings']) {
      const path = `/apis/rbac.authorization.k8s.io/v1/${kind}/${host}-nodes`
      await api.request({ what: `remove a ${kind}`, method: 'DELETE', path })
    }
    api.close()
    await rm(folder, { recursive: true })
  })

  const hosts = async (...labels: readonly string[]) => {
    const selector = ['app=gamekeeper', ...labels].join(',')
    const names = await kubectl('get', 'pods', '-n', host, '-l', selector, '-o', 'jsonpath={.items[*].metadata.name}')
    return names.split(' ')
  }
  const leader = () =>
    vi.waitFor(async () => {
      const leaders = await hosts('mps.gamekeeper.com/leader=true')
      expect(leaders).toHaveLength(1)
      return String(leaders[0])
    }, waitOptions)
  const restart = async (pod: string) => {
    await kubectl('delete', 'pod', '-n', host, pod)
    await kubectl('rollout', 'status', '-n', host, 'deployment/gamekeeper', '--timeout=120s')
  }

  it('is a base for the overlay on the page', async () => {
    const overlay = join(folder, 'overlay')
    await mkdir(overlay)
    for (const text of blocks('docs/guides/kubernetes.md', 'yaml')) {
      // The base may be anywhere.
      if (fileOf(text) !== '')
        await writeFile(join(overlay, fileOf(text)), text.replace('../gamekeeper', relative(overlay, root)))
    }
    const text = await kubectl('kustomize', overlay)
    const documents = parseAllDocuments(text).map((document) => document.toJS())
    const { spec } = documents.find(({ kind }) => kind === 'Deployment')
    const [{ image, env }] = spec.template.spec.containers
    expect([spec.replicas, image]).toEqual([3, 'registry.example/gamekeeper:0.1.0'])
    expect(env).toContainEqual({ name: 'PORT_RANGE', value: '7000-7999' })
    expect(env).toContainEqual({ name: 'HEALTH_PORT', value: '8080' })
  })

  it(
    'starts with one command, and allocates reachable servers through its Service while hosts are restarted and killed',
    { timeout: 900_000 },
    async () => {
      await kubectl('apply', '-k', folder)
      await kubectl('apply', '-n', games, '-f', at('examples/kubernetes/more/arena.yaml'))
      await vi.waitFor(async () => {
        expect(await kubectl('get', 'gsb', '-n', games, '--no-headers')).toMatch(/^arena +2\/2 +0 +0 +Healthy +True/)
      }, waitOptions)

      const buildID = await kubectl('get', 'gsb', '-n', games, 'arena', '-o', 'jsonpath={.spec.buildID}')
      const service = await kubectl(
        'get',
        'svc',
        '-n',
        host,
        'gamekeeper-allocation',
        '-o',
        'jsonpath={.spec.clusterIP}',
      )
      // The Service's endpoints follow shortly after the leader's pod is ready.
      await vi.waitFor(() => fetch(`http://${service}:5000/`), waitOptions)
      const sessionID = randomUUID()
      const body = JSON.stringify({ buildID, sessionID, sessionCookie: 'map=dust', initialPlayers: ['amie'] })
      const allocate = async (): Promise<Allocation> => {
        // The address of a deleted pod may accept packets and never answer.
        const signal = AbortSignal.timeout(40_000)
        const answer = await fetch(`http://${service}:5000/api/v1/allocate?wait=30`, { method: 'POST', body, signal })
        const text = await answer.text()
        if (answer.status !== 200) {
          throw new Error(`${answer.status} ${JSON.stringify(Object.fromEntries(answer.headers))} ${text}`)
        }
        return JSON.parse(text)
      }
      const allocation = await allocate()
      expect(await allocate()).toEqual(allocation)
      const { IPV4Address, Ports } = allocation
      const port = Number(Ports.split(':')[1])
      const answer = `session ${sessionID} cookie map=dust players`
      await vi.waitFor(async () => {
        expect(await sayTcp(IPV4Address, port, 'hello bob')).toContain(answer)
      }, waitOptions)
      expect(await sayUdp(IPV4Address, port, 'hello bob')).toContain(answer)

      const listed: { readonly items: readonly GameServer[] } = JSON.parse(
        await kubectl('get', 'gs', '-n', games, '-o', 'json'),
      )
      const active = listed.items.find(({ status }) => status.sessionID === sessionID)
      expect(active?.status).toMatchObject({ state: 'Active', publicIP: IPV4Address, ports: Ports })
      // The allocation sets the autoscaler's annotation; the game reports its players.
      await vi.waitFor(async () => {
        const pod = JSON.parse(await kubectl('get', 'pod', '-n', games, active?.metadata.name ?? '', '-o', 'json'))
        expect(pod.metadata.annotations['cluster-autoscaler.kubernetes.io/safe-to-evict']).toBe('false')
        expect(pod.metadata.ownerReferences).toMatchObject([{ kind: 'GameServer', name: active?.metadata.name }])
      }, waitOptions)

      // Any host answers. One leads, and another takes over from it.
      await kubectl('rollout', 'status', '-n', host, 'deployment/gamekeeper', '--timeout=120s')
      const log = await kubectl('logs', '-n', host, await leader())
      expect(JSON.parse(log.split('\n').find((line) => line.includes('"ready"')) ?? '{}')).toMatchObject({
        allocation: `http://gamekeeper-allocation.${host}:5000`,
        management: `http://gamekeeper-management.${host}:5001`,
      })
      const stream = new ServiceStream(service, buildID, 3)
      try {
        const served = (count: number) =>
          vi.waitFor(() => expect(stream.answered).toBeGreaterThanOrEqual(count), waitOptions)
        await served(100)
        const before = await leader()
        await restart(before)
        expect(await leader()).not.toBe(before)

        const killed = await leader()
        // Started before, so that the kill follows the allocation within milliseconds.
        const kill = await execOnCall(host, killed, 'kill -9 $(pidof node)')
        stream.mayBreak = true
        const { sessionID: last, ...game } = await stream.newSession()
        kill.go()
        // The session that was allocated last reaches its game once another host leads.
        await vi.waitFor(async () => expect(await leader()).not.toBe(killed), waitOptions)
        kill.close()
        await vi.waitFor(
          async () => expect(await sayTcp(game.host, game.port, 'hello bob')).toContain(last),
          waitOptions,
        )
        const state = 'jsonpath={.status.containerStatuses[0].restartCount} {.status.containerStatuses[0].ready}'
        await vi.waitFor(
          async () => expect(await kubectl('get', 'pod', '-n', host, killed, '-o', state)).toBe('1 true'),
          waitOptions,
        )
        stream.mayBreak = false

        const now = await leader()
        await restart((await hosts()).find((pod) => pod !== now) ?? '')
        await served(2_000)
      } finally {
        await stream.stop()
      }
      expect(stream.refused).toEqual([])
      expect([...stream.answers.values()].map((answers) => answers.size)).toEqual([1, 1, 1, 1])
      // No match has ended, and none has two servers.
      const sessions = 'jsonpath={.items[*].status.sessionID}'
      expect((await kubectl('get', 'gs', '-n', games, '-o', sessions)).split(' ').toSorted()).toEqual(
        [sessionID, ...stream.answers.keys()].toSorted(),
      )
      expect(await allocate()).toEqual(allocation)
      await kubectl('scale', 'gsb', '-n', games, 'arena', '--replicas', '1')
      await vi.waitFor(async () => {
        expect(await kubectl('get', 'gsb', '-n', games, '--no-headers')).toMatch(/^arena +1\/1 +5 +0 +Healthy/)
      }, waitOptions)
      await kubectl('delete', 'gsb', '-n', games, 'arena', '--wait=false')
      await vi.waitFor(async () => {
        expect(await kubectl('get', 'pods', '-n', games, '-o', 'name')).toBe('')
      }, waitOptions)
    },
  )
})
