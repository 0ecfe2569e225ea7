/**
 * Writes continuously. Appends each acknowledged write to a file, `<name> <number of the write> <revision> .`, and then prints
 * a line.
 */
import { openSync, writeSync } from 'node:fs'
import { minimalServer } from '../../../src/testing/records.js'
import { fileStore } from '../../../src/stores/file.js'

const [directory = '', reports = '', round = '', writers = ''] = process.argv.slice(2)
const file = openSync(reports, 'a')
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
    // A kill loses what `process.stdout` has queued for a slow reader, but nothing that is in a file.
    writeSync(file, `${name} ${n} ${revision} .\n`)
    process.stdout.write('\n')
  }
}

await Promise.all(Array.from({ length: Number(writers) }, (_, i) => write(`arena-${round}-${i}`)))
