/** Writes continuously and prints acknowledged writes: `<name> <number of the write> <revision>`. */
import { minimalServer } from '../../../src/testing/records.js'
import { fileStore } from '../../../src/stores/file.js'

const [directory = '', round = '', writers = ''] = process.argv.slice(2)
const { servers } = await fileStore({ directory })

async function write(name: string): Promise<never> {
  const ref = { namespace: 'default', name }
  let revision = ''
  for (let n = 1; ; n++) {
    // Every tenth write deletes the record; the next one creates it again.
    const record = { ...minimalServer(ref), node: String(n) }
    if (n % 10 === 0) await servers.delete(ref, revision)
    else if (n % 10 === 1) revision = await servers.create(record)
    else revision = await servers.update(record, revision)
    process.stdout.write(`${name} ${n} ${revision}\n`)
  }
}

await Promise.all(Array.from({ length: Number(writers) }, (_, i) => write(`arena-${round}-${i}`)))
