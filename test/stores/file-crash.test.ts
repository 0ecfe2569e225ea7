import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { fileStore } from '../../src/stores/file.js'
import { minimalServer } from '../../src/testing/records.js'
import { startChild } from './child.js'
import { temporaryDirectory } from './temporary.js'

const rounds = 6
const writers = 12

interface Acknowledged {
  readonly n: number
  readonly revision: string
}

test('acknowledged writes survive kill -9 at any moment, and nothing else changes', async () => {
  const directory = await temporaryDirectory()
  const kept = new Map<string, string>()
  for (let round = 0; round < rounds; round++) {
    const acknowledged = await writeUntilKilled(directory, round)
    const store = await fileStore({ directory })
    const found = new Map((await store.servers.list()).map((versioned) => [versioned.record.name, versioned]))

    for (const [name, text] of kept) expect(JSON.stringify(found.get(name))).toBe(text)
    for (let i = 0; i < writers; i++) {
      const name = `arena-${round}-${i}`
      const last = acknowledged.get(name) ?? { n: 0, revision: '' }
      const now = found.get(name)
      // The write after the last acknowledged one may or may not have happened.
      const possible = [last.n, last.n + 1].map((n) => (n % 10 === 0 ? undefined : String(n)))
      expect(possible).toContain(now?.record.node)
      if (now) expect(now.record).toEqual({ ...minimalServer(now.record), node: now.record.node })
      if (now && now.record.node === String(last.n)) expect(now.revision).toBe(last.revision)
      if (now && now.record.node !== String(last.n)) expect(now.revision).not.toBe(last.revision)

      if (now && last.revision !== now.revision) {
        const stale = store.servers.update(now.record, last.revision)
        await expect(stale).rejects.toMatchObject({ code: 'conflict' })
      }
      if (now) {
        const revision = await store.servers.update(now.record, now.revision)
        await expect(store.servers.update(now.record, now.revision)).rejects.toMatchObject({ code: 'conflict' })
        kept.set(name, JSON.stringify({ record: now.record, revision }))
      }
    }
    await store.close()
  }
  expect(kept.size).toBeGreaterThan(rounds)
}, 300_000)

/** Kills the writer after a random number of acknowledgements; returns the last one of each record. */
async function writeUntilKilled(directory: string, round: number): Promise<ReadonlyMap<string, Acknowledged>> {
  const reports = join(await temporaryDirectory(), 'reports')
  const child = startChild('writer.ts', [directory, reports, String(round), String(writers)])
  onTestFinished(() => child.kill())
  const enough = 1 + Math.floor(Math.random() * 1_000)
  for (let count = 0; count < enough; count++) expect((await child.lines.next()).done).toBe(false)
  await child.kill()
  const acknowledged = new Map<string, Acknowledged>()
  for (const line of (await readFile(reports, 'utf8')).split('\n')) {
    const [name = '', n, revision = '', end] = line.split(' ')
    // Without its end, a line is an acknowledged write whose report the kill cut off, perhaps within the number.
    if (end !== undefined) acknowledged.set(name, { n: Number(n), revision })
  }
  return acknowledged
}
