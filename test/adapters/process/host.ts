/**
 * A host for tests to kill: `host DIRECTORY SPECS CONCURRENCY OPTIONS` opens a process backend and creates instances from the JSON specs.
 * Prints a line for each, then keeps running.
 */
import { processBackend } from '../../../adapters/process/index.js'
import type { InstanceSpec } from '../../../src/contracts/backend.js'

const [directory = '', specs = '[]', atOnce = '1', options = '{}'] = process.argv.slice(2)
const backend = processBackend({ directory, ...JSON.parse(options) })
const waiting: InstanceSpec[] = JSON.parse(specs)

async function work(): Promise<void> {
  for (let spec = waiting.shift(); spec; spec = waiting.shift()) {
    const instance = await backend.create(spec)
    process.stdout.write(`${instance.ref.name}\n`)
  }
}

setInterval(() => {}, 1e6)
await Promise.all(Array.from({ length: Number(atOnce) }, work))
