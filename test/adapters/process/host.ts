/**
 * A host to be killed: opens a process backend on the directory of its first argument and creates what its second one,
 * JSON specs, asks for, up to as many at once as its third says. Writes a line for each, then goes on living.
 */
import { processBackend } from '../../../adapters/process/index.js'
import type { InstanceSpec } from '../../../src/contracts/backend.js'

const [directory = '', specs = '[]', atOnce = '1'] = process.argv.slice(2)
const backend = processBackend({ directory })
const waiting: InstanceSpec[] = JSON.parse(specs)

async function work(): Promise<void> {
  for (let spec = waiting.shift(); spec; spec = waiting.shift()) {
    const instance = await backend.create(spec)
    process.stdout.write(`${instance.ref.name}\n`)
  }
}

setInterval(() => {}, 1e6)
await Promise.all(Array.from({ length: Number(atOnce) }, work))
