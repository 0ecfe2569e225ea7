/**
 * `npm run bench`: measures the built package against the bare thing in the same run, and says which goals are missed.
 * See docs/explanation/benchmarks.md.
 */
import { cpus, loadavg } from 'node:os'
import { parseArgs } from 'node:util'
import { messageOf } from '../../src/contracts/errors.js'
import { allocateFile } from './allocate-file.js'
import { allocateHttp } from './allocate-http.js'
import { allocateKubernetes } from './allocate-kubernetes.js'
import { allocateMemory } from './allocate-memory.js'
import { dockerStart } from './docker-start.js'
import { heartbeat } from './heartbeat.js'
import { kubernetesStart } from './kubernetes-start.js'
import { asJson, asTable, type Bench, type Row } from './row.js'
import { settled } from './settled.js'

const benches: readonly Bench[] = [
  allocateMemory,
  allocateFile,
  allocateHttp,
  allocateKubernetes,
  heartbeat,
  settled,
  dockerStart,
  kubernetesStart,
]

const usage = 'npm run bench -- [--json] [--only <row>] [--quick]'

interface Options {
  readonly json: boolean
  readonly quick: boolean
  readonly only: string | undefined
}

async function main(): Promise<void> {
  const options = readOptions()
  const { only } = options
  const rows: Row[] = []
  if (!options.json) console.log(`${machine()}\n`)
  for (const bench of benches) {
    if (only !== undefined && !bench.names.includes(only)) continue
    console.error(`measuring ${bench.names.join(', ')}`)
    rows.push(...(await bench.run(options.quick)))
  }
  const wanted = rows.filter(({ name }) => only === undefined || name === only)
  console.log(options.json ? asJson(wanted) : `${asTable(wanted)}\n\n${verdict(wanted, options)}`)
}

function readOptions(): Options {
  try {
    const { values } = parseArgs({
      options: { json: { type: 'boolean' }, quick: { type: 'boolean' }, only: { type: 'string' } },
    })
    const names = benches.flatMap((bench) => bench.names)
    if (values.only !== undefined && !names.includes(values.only)) {
      throw new Error(`there is no row ${values.only}; there are ${names.join(', ')}`)
    }
    return { json: values.json ?? false, quick: values.quick ?? false, only: values.only }
  } catch (error) {
    console.error(`${messageOf(error)}\nusage: ${usage}`)
    process.exit(2)
  }
}

function machine(): string {
  const processors = cpus()
  const load = loadavg().map((value) => value.toFixed(1))
  return `node ${process.version}, ${processors.length} × ${processors[0]?.model ?? 'processor'}, load ${load.join(' ')}`
}

function verdict(rows: readonly Row[], { quick }: Options): string {
  if (quick) return 'A quick run only shows that the benchmarks work: its figures mean nothing.'
  const missed = rows.filter(({ met }) => !met).map(({ name }) => name)
  const load = `Load at the end: ${loadavg()[0]?.toFixed(1)}.`
  return missed.length === 0 ? `Every goal is met. ${load}` : `MISSED: ${missed.join(', ')}. ${load}`
}

await main()
