/**
 * `npm run bench`: measures the built package, compares it with a baseline from the same run, and reports missed goals.
 * See docs/explanation/benchmarks.md.
 */
import { cpus, loadavg } from 'node:os'
import { parseArgs } from 'node:util'
import { messageOf } from '../../src/contracts/errors.js'
import { allocateCluster, defaultServers } from './allocate-cluster.js'
import { allocateFile } from './allocate-file.js'
import { allocateHttp } from './allocate-http.js'
import { allocateKubernetes } from './allocate-kubernetes.js'
import { allocateMemory } from './allocate-memory.js'
import { allocateSelectors } from './allocate-selectors.js'
import { dockerStart } from './docker-start.js'
import { failover } from './failover.js'
import { heartbeat } from './heartbeat.js'
import { kubernetesStart } from './kubernetes-start.js'
import { largeCluster } from './large-cluster.js'
import { longestStall } from './longest-stall.js'
import { replacement } from './replacement.js'
import { asJson, asTable, type Bench, type Row } from './row.js'
import { settled } from './settled.js'

const benches: readonly Bench[] = [
  allocateMemory,
  allocateSelectors,
  allocateFile,
  allocateHttp,
  allocateKubernetes,
  heartbeat,
  settled,
  longestStall,
  dockerStart,
  kubernetesStart,
  failover,
  largeCluster,
  allocateCluster,
  replacement,
]

const usage = `Usage: npm run bench -- [options]

Measures the built package against a baseline in the same run. Rows that need a Docker engine or a Kubernetes cluster are
left out if there is none.

Options:
  --only <row>     Measure this row, and those that are measured with it.
  --servers <n>    Number of servers for the rows allocate-cluster-*. Default: ${defaultServers}.
  --quick          Check that the benchmarks work; the figures are meaningless.
  --json           Print the rows as JSON.
  -h, --help       Print this help.

Rows:
${benches
  .flatMap((bench) => bench.names)
  .map((name) => `  ${name}`)
  .join('\n')}`

interface Options {
  readonly json: boolean
  readonly quick: boolean
  readonly only: string | undefined
  readonly servers: number
}

async function main(): Promise<void> {
  const options = readOptions()
  const { only, quick, servers } = options
  const rows: Row[] = []
  if (!options.json) console.log(`${machine()}\n`)
  for (const bench of benches) {
    if (only !== undefined && !bench.names.includes(only)) continue
    console.error(`measuring ${bench.names.join(', ')}`)
    rows.push(...(await bench.run(quick, servers)))
  }
  console.log(options.json ? asJson(rows) : `${asTable(rows)}\n\n${verdict(rows, options)}`)
}

function readOptions(): Options {
  try {
    const { values } = parseArgs({
      options: {
        json: { type: 'boolean' },
        quick: { type: 'boolean' },
        only: { type: 'string' },
        servers: { type: 'string' },
        help: { type: 'boolean', short: 'h' },
      },
    })
    if (values.help) {
      console.log(usage)
      process.exit(0)
    }
    const names = benches.flatMap((bench) => bench.names)
    if (values.only !== undefined && !names.includes(values.only)) {
      throw new Error(`unknown row ${values.only}; rows: ${names.join(', ')}`)
    }
    const servers = Number(values.servers ?? defaultServers)
    if (!Number.isInteger(servers) || servers < 1)
      throw new Error(`--servers ${values.servers} is not a number of servers`)
    return { json: values.json ?? false, quick: values.quick ?? false, only: values.only, servers }
  } catch (error) {
    console.error(`bench: ${messageOf(error)}; see --help`)
    process.exit(2)
  }
}

function machine(): string {
  const processors = cpus()
  const load = loadavg().map((value) => value.toFixed(1))
  return `node ${process.version}, ${processors.length} × ${processors[0]?.model ?? 'processor'}, load ${load.join(' ')}`
}

function verdict(rows: readonly Row[], { quick }: Options): string {
  if (quick) return 'Quick run: the benchmarks work, but the figures are meaningless.'
  const missed = rows.filter(({ met }) => !met).map(({ name }) => name)
  const load = `Load at the end: ${loadavg()[0]?.toFixed(1)}.`
  return missed.length === 0 ? `All goals met. ${load}` : `MISSED: ${missed.join(', ')}. ${load}`
}

await main()
