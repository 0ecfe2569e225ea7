/** The service account of examples/kubernetes has exactly the permissions that a host uses. */
import { randomUUID } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createFleet } from 'gamekeeper'
import { kubernetesBackend } from 'gamekeeper/kubernetes'
import { expect, it, onTestFinished } from 'vitest'
import { parseAllDocuments } from 'yaml'
import { defaultKubeConfig } from '../../../adapters/kubernetes/client/kube-config.js'
import { defaultApiGroup } from '../../../src/rules/model/wire.js'
import { until } from '../../e2e/until.js'
import { root } from '../../package/sources.js'
import { kubectlWith } from './support/cluster.js'
import { countingProxy } from './support/counting-proxy.js'
import { describeOnCluster } from './support/describe-on-cluster.js'
import { ownNamespace } from './support/own-namespace.js'
import { hollowBuild, hollowPod } from './support/scale-fleet.js'

/**
 * Permissions used only by hosts that do not lead, by the second leader and in a burst, and after failures, such as conflicts, writes whose
 * response was lost and pods that do not start. The demand is written after five minutes, and deleted after days.
 */
const inTrouble = [
  'watch leases',
  ...['get gameserverbuilds', 'get gameserverdetails', 'get gameservers', 'get pods', 'patch gameservers'],
  'get gameserverallocations',
  ...['create gameserverdemands', 'patch gameserverdemands', 'delete gameserverdemands'],
  'patch secrets',
  'update gameserverjournals',
  'list events',
]

interface Rule {
  readonly resources: readonly string[]
  readonly verbs: readonly string[]
}

describeOnCluster('the permissions in examples/kubernetes', () => {
  const space = ownNamespace()

  it('are exactly those that a fleet uses over its lifetime', { timeout: 240_000 }, async () => {
    const proxy = await countingProxy(defaultKubeConfig())
    onTestFinished(() => proxy.close())
    await kubectlWith(
      JSON.stringify({ apiVersion: 'v1', kind: 'Pod', ...hollowPod({ namespace: space(), name: 'host' }, 21_990) }),
      'apply',
      '-f',
      '-',
    )
    const ids = new Map<string, string>()
    const backend = kubernetesBackend({
      kubeConfig: proxy.config,
      namespaces: [space()],
      portRange: '21991-21999',
      leaseMs: 15_000,
      pod: 'host',
      prePullImages: true,
    })
    const create = backend.create.bind(backend)
    backend.create = (spec, options) => {
      ids.set(spec.ref.name, spec.sdk.sessionHostId)
      return create(spec, options)
    }
    const fleet = await createFleet({ backend, agent: { external: '192.0.2.1:56001' } })
    onTestFinished(() => fleet.close())
    const beat = (name: string, players: readonly string[]) =>
      fleet.heartbeat(ids.get(name) ?? '', { state: 'StandingBy', health: 'Healthy', players: [...players] })
    await fleet.builds.create(hollowBuild(space(), 2))
    const ref = { namespace: space(), name: 'arena' }
    const sessionID = randomUUID()
    const { SessionID } = await until('one of them is allocated', () => {
      for (const name of ids.keys()) beat(name, [])
      return fleet.allocate({ buildID: `id-of-${space()}`, sessionID })
    })
    const servers = await fleet.servers.list()
    const active = servers.find(({ status }) => status.sessionID === SessionID)
    expect(active).toBeDefined()
    const name = active?.metadata.name ?? ''
    for (const players of [['amie'], ['amie', 'bo']]) {
      beat(name, players)
      await until(
        'the players are recorded',
        () =>
          proxy.requests.filter((call) => call.includes('gameserverdetails') && !call.startsWith('GET')).length >=
          players.length,
      )
    }
    // Hollow nodes have no logs; only the request matters.
    await expect(fleet.servers.logs({ namespace: space(), name }).next()).rejects.toThrow('failed to read the log')
    const spec = { buildID: 'unknown', waitSeconds: 0, ttlSecondsAfterFinished: 0 }
    const requested = {
      apiVersion: `${defaultApiGroup}/v1alpha1`,
      kind: 'GameServerAllocation',
      metadata: { name: 'match' },
      spec,
    }
    await kubectlWith(JSON.stringify(requested), '-n', space(), 'create', '-f', '-')
    const isRemoval = (call: string) => rightFor(call) === 'delete gameserverallocations'
    await until('a finished allocation is removed', () => proxy.requests.some(isRemoval))
    await fleet.builds.patch(ref, { standingBy: 1, max: 3 })
    // When the build is deleted, the cluster's garbage collector may delete the pods before the host does.
    await until('the host has deleted a pod', () => proxy.requests.some((call) => rightFor(call) === 'delete pods'))
    await fleet.servers.delete({ namespace: space(), name })
    await fleet.builds.delete(ref)
    await until('all is gone', async () => (await fleet.servers.list()).length === 0)

    const granted = await rightsOf('examples/kubernetes/gamekeeper.yaml')
    // Everybody may read the version. Connections are kept open with it.
    const used = new Set(proxy.requests.filter((call) => call !== 'GET /version').map(rightFor))
    expect([...used].filter((right) => !granted.has(right))).toEqual([])
    expect([...granted].filter((right) => !used.has(right) && !inTrouble.includes(right))).toEqual([])
  })
})

async function rightsOf(file: string): Promise<ReadonlySet<string>> {
  const documents = parseAllDocuments(await readFile(join(root, file), 'utf8'))
  const rules = documents.flatMap((document): readonly Rule[] => document.toJS().rules ?? [])
  return new Set(
    rules.flatMap(({ resources, verbs }) => verbs.flatMap((verb) => resources.map((of) => `${verb} ${of}`))),
  )
}

/** For example, maps `PATCH /api/v1/namespaces/games/pods/a` to `patch pods`. */
function rightFor(call: string): string {
  const [method = '', target = ''] = call.split(' ')
  const { pathname, searchParams } = new URL(target, 'http://cluster')
  const path = pathname.replace(/^\/(api|apis\/[^/]+)\/v[^/]+\//, '').replace(/^namespaces\/[^/]+\//, '')
  const [resource = '', name, subresource] = path.split('/')
  const of = subresource === undefined ? resource : `${resource}/${subresource}`
  if (method === 'GET' && name === undefined) return `${searchParams.get('watch') ? 'watch' : 'list'} ${of}`
  const verbs: Readonly<Record<string, string>> = {
    GET: 'get',
    POST: 'create',
    PUT: 'update',
    PATCH: 'patch',
    DELETE: 'delete',
  }
  return `${verbs[method]} ${of}`
}
