/** What is told of pods that wait: for what, for how long, and that it is over. */
import type { ServerResponse } from 'node:http'
import { kubernetesBackend } from 'gamekeeper/kubernetes'
import { virtualClock } from 'gamekeeper/testing'
import { describe, expect, it, onTestFinished } from 'vitest'
import type { Instance } from '../../../src/backend.js'
import { silentLogger } from '../../../src/logger.js'
import { until } from '../../e2e/until.js'
import { configFor, fakeApiServer, say } from './fake-api-server.js'

const group = 'mps.gamekeeper.com'
const ofPorts = "0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports."

const heartbeat = () => ({ operation: 'Continue', nextHeartbeatIntervalMs: 1_000 }) as const

/** A backend whose cluster has one node, and pods as the test says. */
async function scene(pods: readonly object[] = []) {
  const clock = virtualClock()
  const watches: ServerResponse[] = []
  const node = { metadata: { name: 'node-1', resourceVersion: '5' }, status: { addresses: [address] } }
  const server = await fakeApiServer((_, response, { pathname, searchParams }) => {
    const isPods = pathname.endsWith('/pods')
    if (searchParams.has('watch')) {
      response.writeHead(200).flushHeaders()
      if (isPods) watches.push(response)
      return
    }
    say(response, 200, { metadata: { resourceVersion: '10' }, items: isPods ? pods : [node] })
  })
  const logger = silentLogger
  const backend = kubernetesBackend({ kubeConfig: configFor(server.url), namespaces: ['games'], clock, logger })
  const told: Instance[] = []
  backend.watch({ changed: (instance) => told.push(instance), gone() {}, resync() {}, heartbeat })
  onTestFinished(() => backend.close())
  await until('pods are watched', () => watches.length > 0)
  return { backend, clock, told }
}

const address = { type: 'InternalIP', address: '10.0.0.4' }

describe('a pod for whose ports there is no room', () => {
  /** The fleet has given it 10003; `more` is what its template asks for besides. */
  const podWith = (...more: readonly number[]) => ({
    metadata: {
      ...{ name: 'arena-a1b2c', namespace: 'games', uid: 'p', resourceVersion: '7' },
      labels: { [`${group}/uid`]: 'u', [`${group}/server`]: 'arena-a1b2c' },
      annotations: { [`${group}/ports`]: '7777:10003' },
    },
    spec: { containers: [{ name: 'game', ports: [10_003, ...more].map((hostPort) => ({ hostPort })) }] },
    status: {
      phase: 'Pending',
      conditions: [{ type: 'PodScheduled', status: 'False', reason: 'Unschedulable', message: ofPorts }],
    },
  })

  it('is to be replaced when its public ports are all that it asks for: others have them', async () => {
    const { backend } = await scene([podWith()])
    expect(await backend.list()).toMatchObject([{ phase: 'exited', blameless: true }])
  })

  it('waits when its template asks for another port of the node: with other public ports it would be no better', async () => {
    const { backend } = await scene([podWith(9100)])
    const [instance] = await backend.list()
    expect(instance).toMatchObject({ phase: 'pending', stuck: true })
    expect(instance?.reason).toContain(ofPorts)
    expect(instance?.reason).toContain('9100')
  })
})
