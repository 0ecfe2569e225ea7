/** What HTTP adds: allocate and heartbeat over real sockets, against bare `node:http` routes that do the same JSON. */
import { createServer, request as ask, Agent } from 'node:http'
import type { AddressInfo } from 'node:net'
import { serve } from 'gamekeeper/http'
import { type Cost, costOf, perSecond, workUs } from './cost.js'
import { newRequests, openFleet } from './fleet.js'
import { type Bench, ratioAtLeast } from './row.js'
import { startSubject } from './subject.js'

const answer = { IPV4Address: '127.0.0.1', Ports: '7777:10000', SessionID: '' }

/** The measured process: the real engine and listeners, and a bare route beside them. */
export async function open({ servers }: { servers: number }) {
  const { fleet, backend, refill } = await openFleet({ servers })
  const { allocationUrl } = await serve({ fleet, allocation: { port: 0 }, management: { port: 0 } })
  const { agentListener } = await import('gamekeeper/http')
  const agentUrl = await listening(createServer(agentListener(fleet)))
  let writes = 0
  fleet.on('ServerStateChanged', () => writes++)

  const bare = (reply: (body: { sessionID?: string }) => object) =>
    listening(
      createServer((request, response) => {
        const chunks: Buffer[] = []
        request.on('data', (chunk: Buffer) => chunks.push(chunk))
        request.on('end', () => {
          const text = JSON.stringify(reply(JSON.parse(Buffer.concat(chunks).toString())))
          response.writeHead(200, { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(text) })
          response.end(text)
        })
      }),
    )
  const bareAllocate = await bare(({ sessionID = '' }) => ({ ...answer, SessionID: sessionID }))
  const bareBeat = await bare(() => ({ operation: 'Continue', nextHeartbeatIntervalMs: 1_000 }))
  let cpu = process.cpuUsage()
  let since = performance.now()

  return {
    where: () => ({
      allocate: `${allocationUrl}/api/v1/allocate`,
      bareAllocate,
      beat: `${agentUrl}/v1/sessionHosts/${backend.servers()[0]?.spec.sdk.sessionHostId ?? ''}/heartbeats`,
      bareBeat,
    }),
    begin() {
      cpu = process.cpuUsage()
      since = performance.now()
    },
    end(calls: number): Cost {
      const { user, system } = process.cpuUsage(cpu)
      return { wallUs: ((performance.now() - since) * 1_000) / calls, cpuUs: (user + system) / calls }
    },
    writes: () => writes,
    async refill() {
      const active = (await fleet.servers.list()).filter(({ status }) => status.state === 'Active')
      await refill(active.map(({ status }) => ({ IPV4Address: status.publicIP, Ports: status.ports, SessionID: '' })))
    },
  }
}

function listening(server: ReturnType<typeof createServer>): Promise<string> {
  return new Promise((resolve) => {
    server.listen(0, '127.0.0.1', () => {
      const { port }: AddressInfo = addressOf(server)
      resolve(`http://127.0.0.1:${port}`)
    })
  })
}

function addressOf(server: ReturnType<typeof createServer>): AddressInfo {
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('the server does not listen')
  return address
}

/** The load comes from this process: so many requests over so many kept connections. */
async function load(url: string, bodies: readonly string[], connections: number): Promise<void> {
  const agent = new Agent({ keepAlive: true, maxSockets: connections })
  let next = 0
  const one = (body: string) =>
    new Promise<void>((resolve, reject) => {
      const headers = { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(body) }
      const request = ask(url, { method: 'POST', agent, headers }, (response) => {
        response.resume()
        response.on('end', () =>
          response.statusCode === 200 ? resolve() : reject(new Error(`${url} answered ${response.statusCode}`)),
        )
      })
      request.on('error', reject)
      request.end(body)
    })
  const worker = async () => {
    for (let body = bodies[next++]; body !== undefined; body = bodies[next++]) await one(body)
  }
  await costOf(bodies.length, async () => void (await Promise.all(Array.from({ length: connections }, worker))))
  agent.destroy()
}

export const overHttp: Bench = {
  names: ['http-allocate', 'heartbeat'],

  async run(quick) {
    const calls = quick ? 50 : 3_000
    const rounds = quick ? 1 : 6
    const subject = await startSubject(import.meta.url, open, { servers: calls })
    try {
      const at = await subject.where()
      const costs = { allocate: [] as Cost[], bareAllocate: [] as Cost[], beat: [] as Cost[], bareBeat: [] as Cost[] }
      const beat = JSON.stringify({ CurrentGameState: 'StandingBy', CurrentGameHealth: 'Healthy', CurrentPlayers: [] })
      let writes = 0
      const measure = async (kind: keyof typeof costs, bodies: readonly string[], keep: boolean) => {
        await subject.begin()
        await load(at[kind], bodies, 32)
        const cost = await subject.end(calls)
        if (keep) costs[kind].push(cost)
      }
      for (let round = 0; round <= rounds; round++) {
        const requests = newRequests(calls).map((request) => JSON.stringify(request))
        const beats = Array.from({ length: calls }, () => beat)
        await measure('bareAllocate', requests, round > 0)
        await measure('allocate', requests, round > 0)
        await subject.refill()
        await measure('bareBeat', beats, round > 0)
        const before = await subject.writes()
        await measure('beat', beats, round > 0)
        writes += (await subject.writes()) - before
      }
      const rate = (list: readonly Cost[]) =>
        perSecond(list.map(workUs).toSorted((a, b) => a - b)[Math.floor(list.length / 2)] ?? Number.NaN)
      return [
        ratioAtLeast(0.6, {
          name: 'http-allocate',
          value: rate(costs.allocate),
          unit: 'calls/s',
          baseline: rate(costs.bareAllocate),
          note: 'by the CPU time of the server process; baseline: a bare node:http route',
        }),
        ratioAtLeast(0.8, {
          name: 'heartbeat',
          value: rate(costs.beat),
          unit: 'calls/s',
          baseline: rate(costs.bareBeat),
          note: `the same; changes of state caused by them: ${writes}`,
        }),
      ]
    } finally {
      await subject.stop()
    }
  },
}
