/** Interruptions of a pod are reported as Events of the build, since the server itself is deleted right after. */
import { createFleet } from 'gamekeeper'
import { beforeAll, expect, it, onTestFinished } from 'vitest'
import { silentLogger } from '../../../../src/contracts/logger.js'
import { defaultApiGroup } from '../../../../src/rules/model/wire.js'
import { until } from '../../../e2e/until.js'
import { kubectl, kubectlWith, namespaceName } from '../support/cluster.js'
import { describeOnCluster } from '../support/describe-on-cluster.js'
import { buildManifest } from '../support/fleets.js'
import { ownNamespaces } from '../support/own-namespace.js'
import { baseImage, open } from '../support/support.js'

describeOnCluster('the Events of a build', () => {
  const { make } = ownNamespaces()
  const namespace = namespaceName()
  const k = (...args: string[]) => kubectl('-n', namespace, ...args)
  beforeAll(() => make(namespace))

  it('report a pod that was deleted with kubectl', async () => {
    const backend = open(namespace, { apiGroup: defaultApiGroup })
    const fleet = await createFleet({ backend, logger: silentLogger })
    onTestFinished(() => fleet.close())
    const script = "trap 'exit 0' TERM; sleep 600 & wait"
    const game = { name: 'game', image: baseImage, imagePullPolicy: 'Never', command: ['sh', '-c', script] }
    const template = { spec: { automountServiceAccountToken: false, containers: [game] } }
    await kubectlWith(buildManifest(namespace, 'arena', { standingBy: 1, max: 1, template }), 'apply', '-f', '-')
    const running = ['get', 'pods', '--field-selector', 'status.phase=Running', '-o', 'name']
    const pod = await until('its pod runs', async () => (await k(...running)).trim() || undefined, 60_000)
    await k('delete', pod, '--wait=false')
    const about = ['--field-selector', 'involvedObject.name=arena', '-o']
    const query = ['get', 'events', ...about, 'jsonpath={range .items[*]}{.type} {.reason}: {.message}{"\\n"}{end}']
    const events = await until('it is reported', async () => /.*\bGone: .*/.exec(await k(...query))?.[0], 30_000)
    expect(events).toMatch(/^Warning Gone: .*pod deleted/)
    const { status } = await fleet.builds.get({ namespace, name: 'arena' })
    expect(status.crashesCount).toBe(0)
  }, 300_000)
})
