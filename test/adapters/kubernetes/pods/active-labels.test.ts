/** When the labels that protect pods from eviction are written. Time is virtual; the requests go to a real HTTP server. */
import { afterEach, describe, expect, it } from 'vitest'
import { ActiveLabels, maxDelayMs } from '../../../../adapters/kubernetes/pods/active-labels.js'
import {
  evictAnnotation,
  namesOf,
  type PodSnapshot,
  unprotectedOf,
} from '../../../../adapters/kubernetes/pods/pod-objects.js'
import { silentLogger } from '../../../../src/contracts/logger.js'
import { virtualClock } from '../../../../src/testing/virtual-clock.js'
import { until } from '../../../e2e/until.js'
import { apiOf, configFor, fakeApiServer, respond, statusOf } from '../support/fake-api-server.js'

const names = namesOf('mps.gamekeeper.com')

function snapshotOf(name: string, metadata: object = {}): PodSnapshot {
  const ref = { namespace: 'games', name }
  const uid = `uid-of-${name}`
  const identity = { ref, uid, container: 'game', ports: [] }
  const instance = { ref, uid, phase: 'running', ports: [] } as const
  return { identity, instance, podUid: `pod-${uid}`, revision: 1, pod: { metadata: { name, ...metadata } } }
}

async function scene(...pods: readonly PodSnapshot[]) {
  const clock = virtualClock()
  const failures = new Map<string, number>()
  const fake = await fakeApiServer((_, response, url) => {
    const left = failures.get(url.pathname) ?? 0
    failures.set(url.pathname, left - 1)
    if (left > 0) respond(response, 500, statusOf(500, 'InternalError'))
    else respond(response, 200, { metadata: { name: 'x', resourceVersion: '2' } })
  })
  const api = apiOf(configFor(fake.url))
  const found = new Map(pods.map((pod) => [pod.identity.ref.name, pod]))
  let priorityPauseMs = Infinity
  const warnings: string[] = []
  const logger = { ...silentLogger, warn: (_: object, message: string) => void warnings.push(message) }
  const labels = new ActiveLabels({
    api: {
      request: (call) => api.request(call),
      get closed() {
        return api.closed
      },
      get priorityPauseMs() {
        return priorityPauseMs
      },
    },
    ...{ clock, logger, names },
    pods: { find: ({ name }) => found.get(name) },
  })
  close = () => labels.stop()
  return {
    ...{ clock, labels, found, fake, warnings },
    fail: (name: string, times: number) => failures.set(`/api/v1/namespaces/games/pods/${name}`, times),
    allocating(isBusy: boolean) {
      priorityPauseMs = isBusy ? 0 : Infinity
    },
    labelled: () => fake.requests.map((request) => request.replace('PATCH /api/v1/namespaces/games/pods/', '')),
  }
}

let close = () => {}
afterEach(() => close())

describe('the label of an active pod', () => {
  it('is written at once while nothing is being allocated', async () => {
    const pod = snapshotOf('arena-1')
    const { labels, labelled } = await scene(pod)
    labels.request(pod)
    labels.request(pod)
    await labels.flush()
    expect(labelled()).toEqual(['arena-1'])
  })

  it('waits while servers are being allocated, and is written in the next pause', async () => {
    const pods = ['arena-1', 'arena-2'].map((name) => snapshotOf(name))
    const { labels, labelled, allocating, clock } = await scene(...pods)
    allocating(true)
    pods.forEach((pod) => labels.request(pod))
    await clock.advance(maxDelayMs - 200)
    expect(labelled()).toEqual([])
    allocating(false)
    await clock.advance(100)
    await until('both are labelled', async () => labelled().length === 2 || undefined)
  })

  it('waits no longer than its limit, however busy the fleet is', async () => {
    const pod = snapshotOf('arena-1')
    const { labels, labelled, allocating, clock } = await scene(pod)
    allocating(true)
    labels.request(pod)
    await clock.advance(maxDelayMs - 1)
    expect(labelled()).toEqual([])
    await clock.advance(1)
    await until('it is labelled', async () => labelled().length === 1 || undefined)
  })

  it('is written again after a failure, while other pods are labelled', async () => {
    const pods = ['arena-1', 'arena-2'].map((name) => snapshotOf(name))
    const { labels, labelled, fail, clock } = await scene(...pods)
    fail('arena-1', 2)
    pods.forEach((pod) => labels.request(pod))
    await until('the second attempt has succeeded', async () => {
      await clock.advance(1_000)
      return labelled().filter((name) => name === 'arena-1').length === 3 || undefined
    })
    expect(labelled().filter((name) => name === 'arena-2')).toHaveLength(1)
  })

  it('that keeps failing is warned of once', async () => {
    const pod = snapshotOf('arena-1')
    const { labels, labelled, fail, clock, warnings } = await scene(pod)
    fail('arena-1', Infinity)
    labels.request(pod)
    await until('it has been tried often', async () => {
      await clock.advance(1_000)
      return labelled().length >= 8
    })
    expect(warnings).toEqual([expect.stringContaining('not protected from eviction')])
  })

  it('is not written if the pod has ended meanwhile, or has the label', async () => {
    const ended = snapshotOf('arena-1')
    const replaced = snapshotOf('arena-2')
    const labelledPod = snapshotOf('arena-3', {
      labels: { [names.active]: 'true' },
      annotations: { [evictAnnotation]: 'false' },
    })
    const { labels, labelled, found, allocating } = await scene(ended, replaced, labelledPod)
    allocating(true)
    ;[ended, replaced, labelledPod].forEach((pod) => labels.request(pod))
    found.set('arena-1', { ...ended, pod: { metadata: { deletionTimestamp: '2025-01-01T00:00:00Z' } } })
    found.set('arena-2', { ...replaced, podUid: 'another' })
    await labels.flush()
    expect(labelled()).toEqual([])
  })

  it('is removed when the match has ended, and comes back with the next one although the cache is late', async () => {
    const pod = snapshotOf('arena-1', {
      labels: { [names.active]: 'true' },
      annotations: { [evictAnnotation]: 'false' },
    })
    const { labels, labelled, fail, clock } = await scene(pod)
    labels.request(pod, true)
    fail('arena-1', 1)
    labels.request(pod, false)
    await until('the second attempt has succeeded', async () => {
      await clock.advance(1_000)
      return labelled().length === 2 || undefined
    })
    labels.request(pod, false)
    await labels.flush()
    expect(labelled()).toHaveLength(2)
    labels.request(pod, true)
    await labels.flush()
    expect(labelled()).toHaveLength(3)
  })

  it('that is requested while it is being removed is written after that', async () => {
    const pod = snapshotOf('arena-1', {
      labels: { [names.active]: 'true' },
      annotations: { [evictAnnotation]: 'false' },
    })
    const { labels, labelled } = await scene(pod)
    labels.request(pod, false)
    labels.request(pod, true)
    await labels.flush()
    expect(labelled().length % 2).toBe(0)
  })

  it('is removed with what the template says about evictions', () => {
    const evict = (annotations: Record<string, string>) => unprotectedOf(names, annotations).annotations
    expect(evict({})).toEqual({ [evictAnnotation]: 'true' })
    expect(evict({ [names.evict]: 'false' })).toEqual({ [evictAnnotation]: 'false' })
  })

  it('is written before the host stops', async () => {
    const pods = Array.from({ length: 20 }, (_, n) => snapshotOf(`arena-${n}`))
    const { labels, labelled, allocating } = await scene(...pods)
    allocating(true)
    pods.forEach((pod) => labels.request(pod))
    await labels.flush()
    expect(labelled()).toHaveLength(20)
  })

  it('is given up when the host stops before a retry, and leaves no timer', async () => {
    const pod = snapshotOf('arena-1')
    const { labels, labelled, fail, clock } = await scene(pod)
    fail('arena-1', 9)
    labels.request(pod)
    await until('it has failed', () => clock.pending === 1)
    labels.stop()
    expect(clock.pending).toBe(0)
    expect(labelled()).toHaveLength(1)
  })
})
