/**
 * Benchmarks how long a heartbeat may have to wait for the host: the longest turn of its event loop while it serves the requests with the
 * most work. The fleet has thousands of builds and servers.
 */
import { randomUUID } from 'node:crypto'
import { get, request as httpRequest } from 'node:http'
import { setTimeout as pause } from 'node:timers/promises'
import { serve } from 'gamekeeper/http'
import { fleetMetrics } from 'gamekeeper/metrics'
import { openFleet } from './fleet.js'
import { ownCpuUs } from './load.js'
import { atMost, type Bench } from './row.js'
import { startSubject } from './subject.js'

const dearID = 'dear'

export async function open({ builds, servers, own }: { builds: number; servers: number; own: number }) {
  const { fleet } = await openFleet({ servers })
  await Promise.all(
    Array.from({ length: builds }, (_, i) =>
      fleet.builds.create({
        metadata: { name: `build-${i}` },
        spec: {
          buildID: randomUUID(),
          standingBy: 0,
          max: 1,
          portsToExpose: [7_777],
          template: { spec: { containers: [{ name: 'game', command: ['game'] }] } },
        },
      }),
    ),
  )
  // Each of its servers has a label of its own.
  await fleet.builds.create({
    metadata: { name: 'dear' },
    spec: {
      buildID: dearID,
      standingBy: own,
      max: own,
      portsToExpose: [7_777],
      template: { spec: { containers: [{ name: 'game', command: ['game'] }] } },
    },
  })
  while ((await fleet.builds.get('dear')).status.currentStandingBy < own) await pause(20)
  const labelled = (await fleet.servers.list()).filter(({ metadata }) => metadata.name.startsWith('dear-'))
  await Promise.all(
    labelled.map(({ metadata }, i) => fleet.servers.update(metadata.name, { labels: { own: `label-${i}` } })),
  )
  let lastEvent = 0
  for await (const { seq } of fleet.events({ from: 1, signal: AbortSignal.timeout(500) })) lastEvent = seq
  const metrics = fleetMetrics(fleet)
  const { allocationUrl, managementUrl } = await serve({
    fleet,
    metrics,
    allocation: { port: 0 },
    management: { port: 0 },
  })
  let isWatched = false
  let longestMs = 0
  return {
    address: () => ({ url: managementUrl, allocationUrl, lastEvent }),
    watch() {
      let wallMs = performance.now()
      let cpuUs = ownCpuUs()
      longestMs = 0
      isWatched = true
      const turn = () => {
        const [wallBefore, cpuBefore] = [wallMs, cpuUs]
        wallMs = performance.now()
        cpuUs = ownCpuUs()
        // Wall time includes the work of other processes.
        longestMs = Math.max(longestMs, Math.min(wallMs - wallBefore, (cpuUs - cpuBefore) / 1_000))
        if (isWatched) setImmediate(turn)
      }
      setImmediate(turn)
    },
    longest() {
      isWatched = false
      return longestMs
    },
  }
}

/** Reads a response until it ends, or until `isEnough` of its last text. */
function read(url: string, isEnough: (text: string) => boolean = () => false): Promise<void> {
  return new Promise((resolve, reject) => {
    const request = get(url, { agent: false }, (response) => {
      if (response.statusCode !== 200) reject(new Error(`${url} answered with ${response.statusCode}`))
      let rest = ''
      response.setEncoding('utf8').on('data', (text: string) => {
        if (isEnough(rest + text)) {
          request.destroy()
          resolve()
        }
        rest = text.slice(-100)
      })
      response.on('error', () => {}).on('end', resolve)
    })
    request.on('error', reject)
  })
}

function post(url: string, body: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const sent = httpRequest(url, { agent: false, method: 'POST' }, (response) => {
      if (response.statusCode !== 200) reject(new Error(`${url} answered with ${response.statusCode}`))
      response.resume().on('end', resolve)
    })
    sent.on('error', reject).end(body)
  })
}

/** About 1 MB: as many conditions as a batch of this size can have. No server meets the last one of each selector. */
function dearBatch(): string {
  const values = (i: number) => Array.from({ length: 32 }, (_, n) => `none-${i}-${n}`)
  const matchExpressions = Array.from({ length: 16 }, (_, i) => {
    return { key: 'own', operator: i < 15 ? 'NotIn' : 'In', values: values(i) }
  })
  const select = Array.from({ length: 8 }, () => ({ builds: [dearID], matchExpressions }))
  return JSON.stringify({ requests: Array.from({ length: 26 }, () => ({ sessionID: randomUUID(), select })) })
}

export const longestStall: Bench = {
  names: ['longest-stall'],

  async run(quick) {
    const builds = quick ? 50 : 3_000
    const servers = quick ? 50 : 10_000
    const readers = quick ? 5 : 100
    const rounds = quick ? 1 : 5
    const own = quick ? 20 : 300
    const batches = quick ? 1 : 10
    const subject = await startSubject(import.meta.url, open, { builds, servers, own })
    try {
      const { url, allocationUrl, lastEvent } = await subject.address()
      const api = `${url}/api/v1`
      const isLast = (text: string) => text.includes(`"seq":${lastEvent}}`)
      const requests: Readonly<Record<string, () => Promise<unknown>>> = {
        'list of builds': () => read(`${api}/gameserverbuilds`),
        'list of servers': () => read(`${api}/gameservers`),
        'page of servers': () => read(`${api}/gameservers?limit=500`),
        'details of a build': () => read(`${api}/gameserverbuilds/default/arena/gameserverdetails`),
        metrics: () => read(`${url}/metrics`),
        'dear selectors': () =>
          Promise.all(
            Array.from({ length: batches }, () => post(`${allocationUrl}/api/v1/allocate-many`, dearBatch())),
          ),
        'event readers': () => Promise.all(Array.from({ length: readers }, () => read(`${api}/events?from=1`, isLast))),
      }
      const stalls: [string, number][] = []
      for (const [name, send] of Object.entries(requests)) {
        const each: number[] = []
        for (let round = 0; round < rounds; round++) {
          await subject.watch()
          await send()
          each.push(await subject.longest())
        }
        // Other work on the machine can only add to a stall.
        stalls.push([name, Math.min(...each)])
      }
      return [
        atMost(50, {
          name: 'longest-stall',
          value: Math.max(...stalls.map(([, ms]) => ms)),
          unit: 'ms',
          note: stalls.map(([name, ms]) => `${name}: ${ms.toFixed(1)}`).join(', '),
        }),
      ]
    } finally {
      await subject.stop()
    }
  },
}
