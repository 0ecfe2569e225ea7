/** A node that is cordoned with kubectl: its servers get an announcement, which restarts of the host do not change. */
import type { Fleet } from 'gamekeeper'
import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest'
import { until } from '../../../e2e/until.js'
import { kubectl, kubectlWith, namespaceName } from '../support/cluster.js'
import { describeOnCluster } from '../support/describe-on-cluster.js'
import { buildManifest } from '../support/fleets.js'
import { ownNamespaces } from '../support/own-namespace.js'
import { HollowGames, hollowBuild, removePods } from '../support/scale-fleet.js'

const noticeMs = 900_000

describeOnCluster('servers on a cordoned node', () => {
  const { make } = ownNamespaces(removePods)
  const namespace = namespaceName()
  const games = new HollowGames()
  let node = ''
  let fleet: Fleet | undefined
  beforeAll(async () => {
    await make(namespace)
    // Not one of the nodes that other tests need.
    const hollow = await kubectl('get', 'nodes', '-l', 'hollow=true', '-o', 'jsonpath={.items[*].metadata.name}')
    node = hollow.split(' ')[1] ?? ''
  }, 300_000)
  afterAll(async () => {
    games.stop()
    await fleet?.close()
  }, 300_000)

  /** Closes the fleet before it, if any: the next host takes over. */
  async function nextHost(): Promise<Fleet> {
    await fleet?.close()
    fleet = await games.openFleet({ namespaces: [namespace], portRange: '20740-20759', cordonNoticeMs: noticeMs })
    return fleet
  }

  const timeOf = async (name: string) => {
    const path = 'jsonpath={.status.nextScheduledMaintenance}'
    return kubectl('-n', namespace, 'get', 'gs', name, '-o', path)
  }

  it('have an announced time, keep it when the host restarts, and lose it with the uncordon', async () => {
    onTestFinished(async () => void (await kubectl('uncordon', node)))
    const first = await nextHost()
    const { spec } = hollowBuild(namespace, 1).spec.template
    const nodeSelector = { ...spec.nodeSelector, 'kubernetes.io/hostname': node }
    const template = { spec: { ...spec, nodeSelector } }
    await kubectlWith(buildManifest(namespace, 'arena', { standingBy: 1, max: 1, template }), 'apply', '-f', '-')
    const { metadata } = await until('a server stands by', async () =>
      (await first.servers.list()).find(({ status }) => status.state === 'StandingBy'),
    )
    const noticeIn = () => games.answerTo(metadata)?.maintenance

    const before = Date.now()
    await kubectl('cordon', node)
    const time = await until('the time is shown', async () => (await timeOf(metadata.name)) || undefined)
    expect(Date.parse(time)).toBeGreaterThanOrEqual(Math.floor(before / 1_000) * 1_000 + noticeMs)
    expect(Date.parse(time)).toBeLessThanOrEqual(Date.now() + noticeMs)
    const notice = {
      nextScheduledMaintenanceUtc: `${time.slice(0, 19)}Z`,
      maintenanceSchedule: { Events: [{ eventStatus: 'Scheduled', Resources: [node] }] },
    }
    expect(noticeIn()).toMatchObject(notice)
    const message = `maintenance of ${metadata.name}'s node ${node} begins at ${new Date(time).toISOString()}`
    expect((await first.explain(metadata)).text).toContain(message)
    await until('kubectl shows the event', async () => {
      const line = 'jsonpath={range .items[*]}{.reason}: {.message}{"\\n"}{end}'
      return (await kubectl('-n', namespace, 'get', 'events', '-o', line)).includes(`MaintenanceAnnounced: ${message}`)
    })

    await nextHost()
    expect(await until('the next host answers', noticeIn)).toMatchObject(notice)
    expect(await timeOf(metadata.name)).toBe(time)
    await kubectl('uncordon', node)
    await until('it is withdrawn', async () => (await timeOf(metadata.name)) === '')
    expect(noticeIn()).toBeUndefined()

    await kubectl('cordon', node)
    await until('it is announced again', async () => (await timeOf(metadata.name)) !== '')
    await fleet?.close()
    await kubectl('uncordon', node)
    await nextHost()
    await until(
      'it is withdrawn by a host that did not see the uncordon',
      async () => (await timeOf(metadata.name)) === '',
    )
  }, 180_000)
})
