/** A rolling update on a real cluster whose only suitable node has no free public port. */
import { createFleet } from 'gamekeeper'
import { expect, it, onTestFinished } from 'vitest'
import { defaultApiGroup } from '../../../../src/rules/model/wire.js'
import { StopWaiting, until } from '../../../e2e/until.js'
import { describeOnCluster } from '../support/describe-on-cluster.js'
import { ownNamespace } from '../support/own-namespace.js'
import { hollowBuild } from '../support/scale-fleet.js'
import { nextRange, open } from '../support/support.js'

describeOnCluster('a rolling update without a free port', () => {
  const space = ownNamespace()

  it('goes on as the ports of replaced servers come free', { timeout: 240_000 }, async () => {
    const backend = open(space(), { apiGroup: defaultApiGroup, portRange: nextRange(2) })
    const ids = new Map<string, string>()
    /** How long rejected creations took. */
    const rejectedMs: number[] = []
    const create = backend.create.bind(backend)
    backend.create = async (spec, options) => {
      ids.set(spec.ref.name, spec.sdk.sessionHostId)
      const before = performance.now()
      return create(spec, options).catch((error: unknown) => {
        rejectedMs.push(performance.now() - before)
        throw error
      })
    }
    const fleet = await createFleet({ backend, agent: { external: '192.0.2.1:56001' } })
    onTestFinished(() => fleet.close())
    const { metadata, spec } = hollowBuild(space(), 2)
    const onOneNode = { 'kubernetes.io/hostname': 'hollow-1' }
    const template = (version: string) => ({
      metadata: { annotations: { version } },
      spec: { ...spec.template.spec, nodeSelector: onOneNode, terminationGracePeriodSeconds: 1 },
    })

    await fleet.builds.create({ metadata, spec: { ...spec, max: 4, template: template('1') } })
    /** Resolves with the names of the servers once two are standing by. */
    const standingBy = (what: string, before: readonly string[]) =>
      until(
        what,
        async () => {
          const servers = await fleet.servers.list()
          for (const { metadata, status } of servers) {
            if (status.state !== 'Initializing' && status.state !== 'StandingBy') continue
            const heartbeat = { state: 'StandingBy', health: 'Healthy', players: [] } as const
            fleet.heartbeat(ids.get(metadata.name) ?? '', heartbeat)
          }
          if (servers.length > 4) throw new StopWaiting(`${servers.length} servers`)
          const ready = servers.filter(({ status }) => status.state === 'StandingBy').map((one) => one.metadata.name)
          return ready.length === 2 && !ready.some((name) => before.includes(name)) && ready
        },
        150_000,
      )
    const first = await standingBy('two servers are ready', [])
    await fleet.builds.update({ namespace: space(), name: metadata.name }, { template: template('2') })
    await standingBy('both are replaced', first)
    expect(rejectedMs.length).toBeGreaterThan(0)
    expect(Math.max(...rejectedMs)).toBeLessThan(15_000)
  })
})
