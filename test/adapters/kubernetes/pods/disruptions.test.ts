/** What operators do to a fleet's nodes and pods with kubectl: no match ends, and lost servers are replaced. */
import { randomUUID } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Fleet } from 'gamekeeper'
import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest'
import { messageOf } from '../../../../src/contracts/errors.js'
import { until } from '../../../e2e/until.js'
import { root } from '../../../package/sources.js'
import { kubectl, kubectlWith, namespaceName } from '../support/cluster.js'
import { describeOnCluster } from '../support/describe-on-cluster.js'
import { buildManifest, tableOf } from '../support/fleets.js'
import { ownNamespaces } from '../support/own-namespace.js'
import { HollowGames, hollowBuild, removePods } from '../support/scale-fleet.js'

const limit = { timeout: 120_000 }

describeOnCluster('a fleet', () => {
  const { api, make } = ownNamespaces(removePods)
  const namespace = namespaceName()
  const games = new HollowGames()
  const k = (...args: readonly string[]) => kubectl('-n', namespace, ...args)
  let fleet: Fleet
  beforeAll(async () => {
    await make(namespace)
    fleet = await games.openFleet({ namespaces: [namespace], portRange: '20700-20739' })
  }, 300_000)
  afterAll(async () => {
    games.stop()
    await fleet.close()
  }, 300_000)

  /** A separate build on hollow nodes, deleted when its test ends. */
  async function scene(build: string, standingBy: number) {
    const { spec } = hollowBuild(namespace, standingBy).spec.template
    const template = { spec: { ...spec, affinity: await twoNodes() } }
    await kubectlWith(buildManifest(namespace, build, { standingBy, max: 4, template }), 'apply', '-f', '-')
    onTestFinished(async () => void (await k('delete', 'gsb', build, '--wait=false')))
    const servers = async (state?: string) => {
      const rows = tableOf(await k('get', 'gs', '-l', `mps.gamekeeper.com/build=${build}`))
      return rows.filter((row) => state === undefined || row['STATE'] === state)
    }
    const standing = async (count: number) =>
      until(`${count} stand by`, async () => {
        const found = (await servers('StandingBy')).map((row) => row['NAME'] ?? '')
        return found.length === count ? found : undefined
      })
    const play = async () => {
      const sessionID = randomUUID()
      const allocate = () => fleet.allocate({ buildID: `id-of-${build}`, sessionID })
      const allocation = await allocate()
      const row = await until('it is shown', async () =>
        (await servers('Active')).find((one) => one['SESSIONID'] === sessionID),
      )
      return { name: row['NAME'] ?? '', row, allocate, allocation }
    }
    /** The build's Event about one of its servers. */
    const warningAbout = async (server: string) => {
      const line = 'jsonpath={range .items[*]}{.type} {.reason}: {.message}{"\\n"}{end}'
      const events = await k('get', 'events', '--field-selector', `involvedObject.name=${build}`, '-o', line)
      return events.split('\n').find((one) => one.startsWith('Warning') && one.includes(server))
    }
    const crashes = async () => (await fleet.builds.get({ namespace, name: build })).status.crashesCount
    return { servers, standing, play, warningAbout, crashes }
  }

  const read = (pod: string, path: string) => k('get', 'pod', pod, '-o', `jsonpath={${path}}`)
  const nodeOf = (pod: string) => read(pod, '.spec.nodeName')
  const safeToEvict = (pod: string) =>
    read(pod, '.metadata.annotations.cluster-autoscaler\\.kubernetes\\.io/safe-to-evict')

  /** Uncordoned when the test ends. */
  function opened(node: string): string {
    onTestFinished(async () => void (await kubectl('uncordon', node)))
    return node
  }

  /** As before a node upgrade, but only this fleet's pods. */
  async function drain(pod: string, ...more: readonly string[]): Promise<string> {
    const node = opened(await nodeOf(pod))
    const uid = await read(pod, '.metadata.labels.mps\\.gamekeeper\\.com/uid')
    const only = `--pod-selector=mps.gamekeeper.com/uid=${uid}`
    await kubectl('drain', node, only, '--delete-emptydir-data', '--ignore-daemonsets', ...more)
    return node
  }

  it('keeps the match and its address on a cordoned node, and starts new servers elsewhere', limit, async () => {
    const { servers, standing, play } = await scene('cordoned', 1)
    await standing(1)
    const match = await play()
    await standing(1)
    const node = opened(await nodeOf(match.name))
    await kubectl('cordon', node)
    const before = (await servers()).map((row) => row['NAME'])
    await k('scale', 'gsb', 'cordoned', '--replicas', '3')
    const added = (await standing(3)).filter((name) => !before.includes(name))
    expect(added).toHaveLength(2)
    for (const name of added) expect(await nodeOf(name)).not.toBe(node)
    const { NAME, STATE, PUBLICIP, PORTS, SESSIONID } = match.row
    const now = (await servers()).find((row) => row['NAME'] === match.name)
    expect(now).toMatchObject({ NAME, STATE, PUBLICIP, PORTS, SESSIONID })
    expect(await match.allocate()).toEqual(match.allocation)
  })

  it('loses no match on a drained node with the example disruption budget, and moves idle servers', limit, async () => {
    const { standing, play, warningAbout, crashes } = await scene('drained', 1)
    const [first = ''] = await standing(1)
    expect(await safeToEvict(first)).toBe('true')
    const match = await play()
    const [idle = ''] = await standing(1)
    await until('it is protected from eviction', async () => (await safeToEvict(match.name)) === 'false')
    await kubectlWith(await budget(), 'apply', '-n', namespace, '-f', '-')
    await until('the budget is up to date', async () => {
      const figures = 'jsonpath={.status.currentHealthy} {.status.disruptionsAllowed}'
      return (await k('get', 'pdb', 'matches', '-o', figures)) === '1 0'
    })
    const left = await drain(idle, '--timeout=60s')
    const [next = ''] = await until('it is replaced', async () => {
      const found = await standing(1)
      return found[0] === idle ? undefined : found
    })
    expect(await nodeOf(next)).not.toBe(left)
    expect(await until('it is reported', () => warningAbout(idle))).toMatch(/^Warning Gone: .*pod deleted/)
    const refusal = await drain(match.name, '--timeout=1s').catch(messageOf)
    expect(refusal).toContain("violate the pod's disruption budget")
    expect(await read(match.name, '.metadata.deletionTimestamp')).toBe('')
    expect(await match.allocate()).toEqual(match.allocation)
    expect(await crashes()).toBe(0)
  })

  it(
    'deletes a pod with its server and a server with its pod, reports the deleted pod, and replaces both',
    limit,
    async () => {
      const { standing, warningAbout, crashes } = await scene('deleted', 2)
      const [server = '', pod = ''] = await standing(2)
      await Promise.all([k('delete', 'gs', server, '--wait=false'), k('delete', 'pod', pod, '--wait=false')])
      await until('both are gone, and what belongs to them', async () => {
        const left = await k('get', 'gs,pod', '-o', 'name')
        return !left.includes(server) && !left.includes(pod)
      })
      const next = await standing(2)
      expect(next.filter((name) => name === server || name === pod)).toEqual([])
      expect(await until('it is reported', () => warningAbout(pod))).toMatch(/^Warning Gone: .*pod deleted/)
      expect(await crashes()).toBe(0)
    },
  )

  it('publishes a node’s ExternalIP, or its InternalIP while it has none', limit, async () => {
    const { servers, standing } = await scene('addressed', 1)
    const [name = ''] = await standing(1)
    const node = await nodeOf(name)
    const internal = await kubectl(
      'get',
      'node',
      node,
      '-o',
      'jsonpath={.status.addresses[?(@.type=="InternalIP")].address}',
    )
    const own = [
      { type: 'InternalIP', address: internal },
      { type: 'Hostname', address: node },
    ]
    const show = async (...more: readonly object[]) => {
      const [path, body] = [`/api/v1/nodes/${node}/status`, { status: { addresses: [...own, ...more] } }]
      await api.request({ what: 'set the addresses of a node', method: 'PATCH', path, body })
    }
    onTestFinished(() => show())
    const publicAddress = async () => (await servers())[0]?.['PUBLICIP']
    expect(await publicAddress()).toBe(internal)
    const external = '203.0.113.77'
    await until('the ExternalIP is published', async () => {
      // Its kubelet overwrites the addresses every ten seconds.
      await show({ type: 'ExternalIP', address: external })
      return (await publicAddress()) === external
    })
    await show()
    await until('the InternalIP is published', async () => (await publicAddress()) === internal)
    expect(await standing(1)).toEqual([name])
  })
})

/** The example with the API version that the cluster serves. */
async function budget(): Promise<string> {
  const text = await readFile(join(root, 'examples/kubernetes/more/disruption-budget.yaml'), 'utf8')
  const served = (await kubectl('api-versions')).split('\n')
  const apiVersion = `apiVersion: ${served.includes('policy/v1') ? 'policy/v1' : 'policy/v1beta1'}`
  return text.replace('apiVersion: policy/v1', apiVersion)
}

/** Two that started far apart: hollow nodes that start together can share a runtime and end each other's pods. */
async function twoNodes(): Promise<object> {
  const names = (await kubectl('get', 'nodes', '-l', 'hollow=true', '-o', 'jsonpath={.items[*].metadata.name}')).split(
    ' ',
  )
  const values = [names[0], names.at(-1)]
  const matchExpressions = [{ key: 'kubernetes.io/hostname', operator: 'In', values }]
  const required = { nodeSelectorTerms: [{ matchExpressions }] }
  return { nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: required } }
}
