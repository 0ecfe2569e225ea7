/**
 * Benchmarks how soon a replacement stands by after an allocation, on a real node with the example game. The baseline is a bare pod of
 * the same image, from its creation until its container runs, in turns with the replacements. Skipped if there is no cluster, or if
 * this machine's Docker engine cannot build the image.
 */
import { randomUUID } from 'node:crypto'
import { createFleet, type Fleet } from 'gamekeeper'
import { kubernetesBackend } from 'gamekeeper/kubernetes'
import type { KubernetesApi } from '../../adapters/kubernetes/client/api.js'
import { pathOf, pods as podType } from '../../adapters/kubernetes/client/kube-objects.js'
import { watchCollection } from '../../adapters/kubernetes/client/watch.js'
import { systemClock } from '../../src/contracts/clock.js'
import { messageOf } from '../../src/contracts/errors.js'
import { silentLogger } from '../../src/contracts/logger.js'
import type { Ref } from '../../src/rules/model/resources.js'
import { withTimeout } from '../../src/util/with-timeout.js'
import { buildExampleImage, exampleImage, exampleTemplate } from '../adapters/docker/example-image.js'
import { makeNamespace, removeNamespace } from '../adapters/kubernetes/support/cluster.js'
import { loadImage } from '../adapters/kubernetes/support/example-images.js'
import { removePod, standingBy } from '../adapters/kubernetes/support/scale-fleet.js'
import { median } from './cost.js'
import { onCluster } from './kubernetes.js'
import { type Bench, ratioAtMost } from './row.js'

const names = ['replacement-cluster']
const rounds = 7
/** A node that does not have the image never starts the game. */
const timeoutMs = 60_000

export const replacement: Bench = {
  names,

  run: (quick) =>
    onCluster(names, async (api) => {
      try {
        await buildExampleImage()
        await loadImage(exampleImage)
      } catch (error) {
        console.error(
          `left out ${names.join(', ')}: the image of the example game cannot be built (${messageOf(error)})`,
        )
        return []
      }
      const namespace = await makeNamespace(api)
      try {
        const { replaced, bare } = await measure(api, namespace, quick ? 1 : rounds)
        const range = `${Math.min(...replaced).toFixed(1)} to ${Math.max(...replaced).toFixed(1)} s`
        const note = `${range}; baseline: until the container of a bare pod runs`
        const row = { name: 'replacement-cluster', value: median(replaced), unit: 's', baseline: median(bare), note }
        return [ratioAtMost(1.5, row)]
      } finally {
        await removeNamespace(api, namespace)
      }
    }),
}

interface Seconds {
  readonly replaced: readonly number[]
  readonly bare: readonly number[]
}

async function measure(api: KubernetesApi, namespace: string, count: number): Promise<Seconds> {
  const [replaced, bare]: [number[], number[]] = [[], []]
  const backend = kubernetesBackend({
    ...{ namespaces: [namespace], systemNamespace: namespace, portRange: '20500-20599', leaseMs: 15_000 },
  })
  const fleet = await createFleet({ backend, agent: { port: 0 } })
  try {
    const buildID = `id-of-${namespace}`
    const isUp = standingBy(fleet, 1)
    await fleet.builds.create({
      metadata: { name: 'arena', namespace },
      spec: { buildID, standingBy: 1, max: 2, portsToExpose: [7777], template: exampleTemplate },
    })
    await inTime('the start of the first server', isUp)
    for (let round = 0; round < count; round++) {
      const since = performance.now()
      const isReplaced = standingBy(fleet, 1)
      const sessionID = randomUUID()
      await fleet.allocate({ buildID, sessionID })
      await inTime('the start of a replacement', isReplaced)
      replaced.push(secondsSince(since))
      await endMatch(fleet, sessionID)
      bare.push(await startBarePod(api, { namespace, name: `bare-${round}` }))
    }
    return { replaced, bare }
  } finally {
    await fleet.drain({ active: 'terminate' })
    await fleet.close()
  }
}

/** Resolves when the server is gone, so that its end takes nothing from what is measured next. */
async function endMatch(fleet: Fleet, sessionID: string): Promise<void> {
  const server = (await fleet.servers.list()).find(({ status }) => status.sessionID === sessionID)
  if (!server) throw new Error(`no server has session ${sessionID}`)
  const { namespace, name } = server.metadata
  const isGone = new Promise<void>((resolve) => {
    const stop = fleet.on('ServerRemoved', (event) => {
      if (event.server.name !== name) return
      stop()
      resolve()
    })
  })
  await fleet.servers.delete({ namespace, name })
  await inTime(`the end of server ${name}`, isGone)
}

/** Resolves with the seconds until its container runs, once the pod is gone again. */
async function startBarePod(api: KubernetesApi, ref: Ref): Promise<number> {
  const path = pathOf(podType, { namespace: ref.namespace })
  let [onRunning, onGone] = [(_seconds: number) => {}, () => {}]
  const running = new Promise<number>((resolve) => (onRunning = resolve))
  const gone = new Promise<void>((resolve) => (onGone = resolve))
  const since = performance.now()
  const stop = watchCollection(
    { api, clock: systemClock, logger: silentLogger, what: 'pods', path },
    {
      listed: () => {},
      changed({ metadata, status }) {
        if (metadata.name === ref.name && Object(status).phase === 'Running') onRunning(secondsSince(since))
      },
      deleted({ metadata }) {
        if (metadata.name === ref.name) onGone()
      },
    },
  )
  try {
    const body = { metadata: ref, ...exampleTemplate }
    await api.request({ what: `create pod ${ref.name}`, method: 'POST', path, body })
    const seconds = await inTime(`the start of pod ${ref.name}`, running)
    await removePod(api, ref)
    await inTime(`the end of pod ${ref.name}`, gone)
    return seconds
  } finally {
    stop()
  }
}

function inTime<T>(what: string, result: Promise<T>): Promise<T> {
  return withTimeout(systemClock, timeoutMs, what, () => result)
}

function secondsSince(since: number): number {
  return (performance.now() - since) / 1_000
}
