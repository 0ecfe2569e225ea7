/** Benchmarks heartbeats from servers that are standing by, through the agent and the real engine. */
import { bareServerFile, open as openBare } from './bare-server.js'
import { clocks, collectYoungGarbage, type Cost, perSecond, typicalWorkUs } from './cost.js'
import { Calls, countingStore } from './counting.js'
import { openFleet } from './fleet.js'
import { costOfRequests, mainThreadCpuUs, post, type Target } from './load.js'
import { atMost, type Bench, ratioAtLeast } from './row.js'
import { startSubject } from './subject.js'

export async function open({ servers }: { servers: number }) {
  const calls = new Calls()
  const { fleet, backend } = await openFleet({
    servers,
    store: countingStore(calls),
    wrap: (backend) => ({ ...backend, capabilities: { ...backend.capabilities, agent: true } }),
  })
  if (calls.total < servers)
    throw new Error(`${servers} servers were stored with only ${calls.total} calls: the counter is broken`)
  calls.reset()
  const [host = '', port] = (fleet.agentAddress ?? '').split(':')
  return {
    target: (): Target => ({ host, port: Number(port) }),
    cpuUs: mainThreadCpuUs,
    collectYoungGarbage,
    hostIds: (): readonly string[] => backend.servers().map(({ spec }) => spec.sdk.sessionHostId),
    storeCalls: () => ({ total: calls.total, summary: calls.summary }),
  }
}

export const heartbeat: Bench = {
  names: ['heartbeat', 'heartbeat-writes'],

  async run(quick) {
    const servers = quick ? 100 : 4_000
    const warmUps = quick ? 1 : 6
    const rounds = quick ? 1 : 12
    const [agent, bare] = await Promise.all([
      startSubject(import.meta.url, open, { servers }),
      startSubject(bareServerFile, openBare, { kind: 'heartbeat', servers: 0 }),
    ])
    try {
      const beat = { CurrentGameState: 'StandingBy', CurrentGameHealth: 'Healthy', CurrentPlayers: [] }
      const requests = (await agent.hostIds()).map((id) => post(`/v1/sessionHosts/${id}`, beat))
      const ours: Cost[] = []
      const theirs: Cost[] = []
      for (let round = 0; round < warmUps + rounds; round++) {
        const [handled, answered] = [await costOfRequests(agent, requests), await costOfRequests(bare, requests)]
        if (handled.bodies.some((body, i) => body !== answered.bodies[i])) throw new Error('the answers differ')
        if (round < warmUps) continue
        ours.push(handled)
        theirs.push(answered)
      }
      const written = await agent.storeCalls()
      const beats = (warmUps + rounds) * servers
      return [
        ratioAtLeast(0.8, {
          name: 'heartbeat',
          value: perSecond(typicalWorkUs(ours)),
          unit: 'requests/s',
          baseline: perSecond(typicalWorkUs(theirs)),
          note: `${clocks(ours)}; bare route: ${clocks(theirs)}`,
        }),
        atMost(0, {
          name: 'heartbeat-writes',
          value: written.total,
          unit: 'store calls',
          note: `in ${beats.toLocaleString('en')} heartbeats ${written.summary}`.trimEnd(),
        }),
      ]
    } finally {
      await Promise.all([agent.stop(), bare.stop()])
    }
  },
}
