/** Images of builds are pulled ahead by the cluster's nodes, before and beside the servers that need them. */
import type { Fleet } from 'gamekeeper'
import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest'
import { pathOf, pods } from '../../../../adapters/kubernetes/client/kube-objects.js'
import { watchCollection } from '../../../../adapters/kubernetes/client/watch.js'
import { systemClock } from '../../../../src/contracts/clock.js'
import { silentLogger } from '../../../../src/contracts/logger.js'
import { objectAt, objectsAt } from '../../../../src/rules/validation/pod-template.js'
import { until } from '../../../e2e/until.js'
import { kubectl, kubectlWith, namespaceName } from '../support/cluster.js'
import { describeOnCluster } from '../support/describe-on-cluster.js'
import { ownNamespaces } from '../support/own-namespace.js'
import { HollowGames, hollowBuild, removePods } from '../support/scale-fleet.js'
import { baseImage, nextRange } from '../support/support.js'

const label = 'mps.gamekeeper.com/image-pull'

describeOnCluster('images that are pulled ahead', () => {
  const { api, make } = ownNamespaces(removePods)
  const namespace = namespaceName()
  const games = new HollowGames()
  let fleet: Fleet | undefined
  beforeAll(async () => void (await make(namespace)), 300_000)
  afterAll(async () => {
    games.stop()
    await fleet?.close()
  }, 300_000)

  /** Closes the fleet before it, if any: the next host takes over. */
  async function nextHost(): Promise<Fleet> {
    await fleet?.close()
    fleet = await games.openFleet({ namespaces: [namespace], portRange: nextRange(10), prePullImages: true })
    return fleet
  }

  const inNamespace = (...args: readonly string[]) => kubectl('-n', namespace, ...args)
  const noPods = () =>
    until('no pod is left', async () => (await inNamespace('get', 'pods', '-l', label, '-o', 'name')) === '')
  /** `<node> <image> <reason>` for each state of pods that pull images. The reason is why the container does not start. */
  const seen = new Set<string>()
  function look(): () => void {
    const path = pathOf(pods, { namespace })
    const what = { api, clock: systemClock, logger: silentLogger, what: 'pods', path, query: { labelSelector: label } }
    return watchCollection(what, {
      listed() {},
      deleted() {},
      changed(object) {
        const [spec, status] = [objectAt(object, 'spec'), objectAt(object, 'status')]
        const state = objectAt(objectsAt(status, 'containerStatuses')[0] ?? {}, 'state')
        const image = objectsAt(spec, 'containers')[0]?.['image']
        seen.add([spec['nodeName'], image, objectAt(state, 'waiting')['reason']].join(' '))
      },
    })
  }
  /** Other tests may have filled hollow nodes. They have place for 110 pods. */
  async function nodesWithPlace(): Promise<readonly string[]> {
    const columns = '{range .items[*]}{.metadata.name} {.status.conditions[?(@.type=="Ready")].status}{"\\n"}{end}'
    const nodes = await kubectl('get', 'nodes', '-l', 'hollow=true', '-o', `jsonpath=${columns}`)
    const ready = nodes.split('\n').flatMap((line) => (line.endsWith(' True') ? (line.split(' ')[0] ?? []) : []))
    const used = (await kubectl('get', 'pods', '-A', '-o', 'jsonpath={.items[*].spec.nodeName}')).split(' ')
    return ready.filter((name) => used.filter((node) => node === name).length < 100)
  }

  const arena = (image: string, standingBy: number) => {
    const { metadata, spec } = hollowBuild(namespace, standingBy)
    const pod = { ...spec.template.spec, containers: [{ name: 'game', image }] }
    return { metadata, spec: { ...spec, max: 3, template: { spec: pod } } }
  }

  it('are on each node that may run servers of the build, and are there before a new version starts', async () => {
    onTestFinished(look())
    const first = await nextHost()
    const nodes = await nodesWithPlace()
    expect(nodes.length).toBeGreaterThan(0)
    const [old, next] = [`${namespace}:1`, `${namespace}:2`]
    const havePulled = (image: string) => nodes.every((node) => seen.has(`${node} ${image} CreateContainerConfigError`))
    await first.builds.create(arena(old, 1))
    await until('each node has pulled', () => havePulled(old))
    await noPods()
    await until(
      'a server stands by',
      async () => (await first.builds.get(arena(old, 1).metadata)).status.currentStandingBy === 1,
    )

    const messages: string[] = []
    first.on('BuildPreparing', ({ message }) => void messages.push(message))
    await first.builds.update(arena(old, 1).metadata, { template: arena(next, 1).spec.template })
    const images = () =>
      inNamespace(
        'get',
        'pods',
        '-l',
        'mps.gamekeeper.com/server',
        '-o',
        'jsonpath={.items[*].spec.containers[0].image}',
      )
    await until('a server has the new version', async () => (await images()).includes(next))
    expect(havePulled(next)).toBe(true)
    expect(messages[0]).toMatch(/^build arena: pulling images ahead: 0 of \d+ nodes are done$/)
    expect([...seen].filter((line) => !line.startsWith('hollow'))).toEqual([])
    await first.builds.delete(arena(old, 1).metadata)
    await noPods()
  }, 240_000)

  it('do not hinder servers if they cannot be pulled, which an Event of the build says', async () => {
    const host = await nextHost()
    const [image, ref] = ['registry.invalid/typo:1', { namespace, name: 'typo' }]
    const containers = [
      { name: 'game', image: baseImage },
      { name: 'typo', image },
    ]
    const { spec } = hollowBuild(namespace, 0)
    const template = { spec: { nodeSelector: { 'kubernetes.io/os': 'linux' }, containers } }
    await host.builds.create({ metadata: ref, spec: { ...spec, buildID: `typo-of-${namespace}`, max: 1, template } })
    const events = () =>
      inNamespace('get', 'events', '-o', 'jsonpath={range .items[*]}{.reason}: {.message}{"\\n"}{end}')
    const shown = await until('the Event', async () =>
      (await events()).split('\n').find((line) => line.startsWith('ImagePullFailed')),
    )
    expect(shown).toMatch(
      /^ImagePullFailed: image registry.invalid\/typo:1 could not be pulled to node \S+ ahead of its servers: ./,
    )
    await noPods()
    await host.builds.delete(ref)
  }, 120_000)

  it('of a host that was killed leave no pods', async () => {
    const nodeName = (await nodesWithPlace())[0] ?? ''
    await fleet?.close()
    const left = {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name: 'arena-pull-left', namespace, labels: { [label]: 'arena' } },
      spec: { nodeName, tolerations: [{ operator: 'Exists' }], containers: [{ name: 'image-0', image: 'arena:1' }] },
    }
    await kubectlWith(JSON.stringify(left), 'apply', '-f', '-')
    const next = await nextHost()
    await next.builds.create(arena('arena:1', 0))
    await noPods()
    await next.builds.delete(arena('arena:1', 0).metadata)
    await noPods()
  }, 120_000)
})
