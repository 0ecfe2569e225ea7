/** What the metrics API says of a pod. The test cluster has none, so its answers are those that metrics-server documents. */
import { expect, it } from 'vitest'
import { podUsage } from '../../../../adapters/kubernetes/pods/pod-usage.js'
import type { PodSnapshot } from '../../../../adapters/kubernetes/pods/pod-objects.js'

const snapshot = { identity: { ref: { namespace: 'games', name: 'arena-x7k2p' }, container: 'game' } } as PodSnapshot

function answering(answer: unknown) {
  const paths: string[] = []
  const request = async ({ path }: { readonly path: string }) => {
    paths.push(path)
    return answer
  }
  return { paths, api: { request } }
}

const metrics = (containers: readonly object[]) => ({
  kind: 'PodMetrics',
  apiVersion: 'metrics.k8s.io/v1beta1',
  metadata: { name: 'arena-x7k2p', namespace: 'games' },
  timestamp: '2026-11-27T20:24:00Z',
  window: '15s',
  containers,
})

it('is that of the game’s container, in cores and bytes', async () => {
  const { api, paths } = answering(
    metrics([
      { name: 'sidecar', usage: { cpu: '1', memory: '1Gi' } },
      { name: 'game', usage: { cpu: '250123456n', memory: '145680Ki' } },
    ]),
  )
  expect(await podUsage({ api, snapshot }, {})).toEqual({ memoryBytes: 145_680 * 1024, cpuCores: 0.250_123_456 })
  expect(paths).toEqual(['/apis/metrics.k8s.io/v1beta1/namespaces/games/pods/arena-x7k2p'])
})

it.each([
  [metrics([])],
  [metrics([{ name: 'game' }])],
  [metrics([{ name: 'game', usage: { cpu: '1', memory: 'x' } }])],
])('is not known from %j', async (answer) => {
  await expect(podUsage({ api: answering(answer).api, snapshot }, {})).rejects.toMatchObject({ code: 'not-found' })
})
