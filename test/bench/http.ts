/**
 * `npm run bench:http`: benchmarks the allocation API with 1,000 connections against a bare `node:http` route that returns the
 * same JSON. Measures the two alternately. See docs/explanation/benchmarks.md.
 */
import type { Allocation } from 'gamekeeper'
import { parseArgs } from 'node:util'
import { open as openFleetServer, openFile } from './allocate-http.js'
import { bareServerFile, open as openBare } from './bare-server.js'
import { median } from './cost.js'
import { newRequests } from './fleet.js'
import { type Load, loadThrough, openConnections } from './many-connections.js'
import { post, type Target } from './load.js'
import { asJson, asTable, atMost, ratioAtLeast, type Row } from './row.js'
import { startSubject } from './subject.js'

interface Options {
  readonly connections: number
  /** Calls per round, for each of the two servers. */
  readonly calls: number
  readonly rounds: number
  readonly warmUps: number
}

const full: Options = { connections: 1_000, calls: 5_000, rounds: 8, warmUps: 3 }
/** With these options the benchmark only checks that it works. */
const quick: Options = { connections: 200, calls: 400, rounds: 1, warmUps: 0 }

interface Server {
  target(): Promise<Target>
  cpuUs(): Promise<number>
  collectYoungGarbage(): Promise<void>
}

interface Side {
  readonly load: Load
  readonly cpuUs: number
}

async function measure({ connections, calls, rounds, warmUps }: Options): Promise<readonly Row[]> {
  const [fleet, bare] = await Promise.all([
    startSubject(openFile, openFleetServer, { servers: calls }),
    startSubject(bareServerFile, openBare, { kind: 'allocation', servers: calls }),
  ])
  try {
    const ways = {
      ours: await openConnections(await fleet.target(), connections),
      theirs: await openConnections(await bare.target(), connections),
    }
    const side = async (server: Server, way: 'ours' | 'theirs', requests: readonly string[]): Promise<Side> => {
      await server.collectYoungGarbage()
      const before = await server.cpuUs()
      const load = await loadThrough(ways[way], requests)
      return { load, cpuUs: ((await server.cpuUs()) - before) / requests.length }
    }
    const ours: Side[] = []
    const theirs: Side[] = []
    for (let round = 0; round < warmUps + rounds; round++) {
      const requests = newRequests(calls).map((request) => post('/api/v1/allocate', request))
      const allocated = await side(fleet, 'ours', requests)
      const answered = await side(bare, 'theirs', requests)
      const allocations = allocated.load.bodies.map((body): Allocation => JSON.parse(body))
      await Promise.all([fleet.refill(allocations), bare.endSessions()])
      if (round < warmUps) continue
      ours.push(allocated)
      theirs.push(answered)
    }
    for (const way of Object.values(ways)) for (const connection of way) connection.end()
    return rowsOf(ours, theirs)
  } finally {
    await Promise.all([fleet.stop(), bare.stop()])
  }
}

function rowsOf(ours: readonly Side[], theirs: readonly Side[]): readonly Row[] {
  if (errorsOf(theirs) > 0)
    throw new Error(`${errorsOf(theirs)} calls of the bare route failed, so there is no baseline`)
  const latencies = (sides: readonly Side[]) => sides.flatMap(({ load }) => load.latenciesMs).toSorted((a, b) => a - b)
  const [own, bare] = [latencies(ours), latencies(theirs)]
  const late = (name: string, quantile: number, most: number) => {
    const [value, baseline] = [at(own, quantile), at(bare, quantile)]
    return ratioBelow(most, { name, value, baseline, unit: 'ms' })
  }
  return [
    ratioAtLeast(0.6, {
      name: 'http-throughput',
      value: median(ours.map(perSecond)),
      baseline: median(theirs.map(perSecond)),
      unit: 'requests/s',
      note: 'wall time, includes the load generator',
    }),
    ratioAtLeast(0.6, {
      name: 'http-work',
      value: 1e6 / median(ours.map(({ cpuUs }) => cpuUs)),
      baseline: 1e6 / median(theirs.map(({ cpuUs }) => cpuUs)),
      unit: 'requests/CPU s',
      note: 'CPU time of the server’s main thread',
    }),
    late('http-p50', 0.5, 1 / 0.6),
    late('http-p99', 0.99, 2),
    atMost(0, {
      name: 'http-errors',
      value: errorsOf(ours),
      unit: 'requests',
      note: `of ${own.length} on ${ours[0]?.load.connections ?? 0} connections`,
    }),
  ]
}

function ratioBelow(most: number, measured: { name: string; value: number; baseline: number; unit: string }): Row {
  const row = atMost(Infinity, { ...measured, note: '' })
  return { ...row, goal: `ratio ≤ ${most.toPrecision(2)}`, met: measured.value / measured.baseline <= most }
}

function errorsOf(sides: readonly Side[]): number {
  return sides.reduce((sum, { load }) => sum + load.errors, 0)
}

function perSecond({ load }: Side): number {
  return (load.latenciesMs.length * 1_000) / load.wallMs
}

function at(sorted: readonly number[], quantile: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * quantile))] ?? NaN
}

const { values } = parseArgs({ options: { json: { type: 'boolean' }, quick: { type: 'boolean' } } })
const rows = await measure(values.quick ? quick : full)
if (values.json) console.log(asJson(rows))
else {
  const missed = rows.filter(({ met }) => !met).map(({ name }) => name)
  console.log(`${asTable(rows)}\n\n${missed.length === 0 ? 'All goals met.' : `MISSED: ${missed.join(', ')}.`}`)
}
process.exit()
