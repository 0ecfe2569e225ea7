/**
 * Writes until the disk is full, then reads, deletes and closes; opens the store again, and writes once the disk is larger. Prints the result
 * of each step.
 */
import { execFileSync } from 'node:child_process'
import { FleetError } from '../../../src/contracts/errors.js'
import { minimalDetail } from '../../../src/testing/records.js'
import { fileStore } from '../../../src/stores/file.js'

const [directory = ''] = process.argv.slice(2)
const store = await fileStore({ directory })
const { details } = store
const say = (message: object) => process.stdout.write(`${JSON.stringify(message)}\n`)
const large = (n: number) => ({
  ...minimalDetail({ namespace: 'default', name: `arena-${n}` }),
  players: ['x'.repeat(100_000)],
})

const revisions: string[] = []
try {
  for (;;) revisions.push(await details.create(large(revisions.length)))
} catch (error) {
  const failure = FleetError.is(error) ? error : undefined
  say({
    written: revisions.length,
    code: failure?.code,
    message: failure?.message,
    cause: failure?.cause instanceof Error,
  })
}

const together = await Promise.allSettled(Array.from({ length: 50 }, (_, i) => details.create(large(1_000 + i))))
say({ codes: [...new Set(together.map((one) => (one.status === 'rejected' ? one.reason.code : 'written')))] })
say({ readable: (await details.list()).length })

for (const [n, revision] of revisions.slice(0, 5).entries()) await details.delete(large(n), revision)
say({ readable: (await details.list()).length })
await store.close()
say({ closed: true })

const again = await fileStore({ directory })
say({ readable: (await again.details.list()).length })
execFileSync('mount', ['-o', 'remount,size=64m', directory])
for (let n = 0; n < 20; n++) await again.details.create(large(2_000 + n))
say({ readable: (await again.details.list()).length })
await again.close()
