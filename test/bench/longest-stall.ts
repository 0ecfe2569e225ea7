/**
 * Benchmarks how long a heartbeat may have to wait for the host: the longest turn of its event loop while it serves the requests with the
 * most work. The fleet has thousands of builds and servers.
 */
import { randomUUID } from 'node:crypto'
import { get } from 'node:http'
import { serve } from 'gamekeeper/http'
import { fleetMetrics } from 'gamekeeper/metrics'
import { openFleet } from './fleet.js'
import { ownCpuUs } from './load.js'
import { atMost, type Bench } from './row.js'
import { startSubject } from './subject.js'

export async function open({ builds, servers }: { builds: number; servers: number }) {
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
  let lastEvent = 0
  for await (const { seq } of fleet.events({ from: 1, signal: AbortSignal.timeout(500) })) lastEvent = seq
  const metrics = fleetMetrics(fleet)
  const { managementUrl } = await serve({ fleet, metrics, allocation: { port: 0 }, management: { port: 0 } })
  let isWatched = false
  let longestMs = 0
  return {
    address: () => ({ url: managementUrl, lastEvent }),
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

export const longestStall: Bench = {
  names: ['longest-stall'],

  async run(quick) {
    const builds = quick ? 50 : 3_000
    const servers = quick ? 50 : 10_000
    const readers = quick ? 5 : 100
    const rounds = quick ? 1 : 5
    const subject = await startSubject(import.meta.url, open, { builds, servers })
    try {
      const { url, lastEvent } = await subject.address()
      const api = `${url}/api/v1`
      const isLast = (text: string) => text.includes(`"seq":${lastEvent}}`)
      const requests: Readonly<Record<string, () => Promise<unknown>>> = {
        'list of builds': () => read(`${api}/gameserverbuilds`),
        'list of servers': () => read(`${api}/gameservers`),
        'page of servers': () => read(`${api}/gameservers?limit=500`),
        'details of a build': () => read(`${api}/gameserverbuilds/default/arena/gameserverdetails`),
        metrics: () => read(`${url}/metrics`),
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
