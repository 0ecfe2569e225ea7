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
}, 120_000)

/** Kills the writer after a random number of acknowledgements; returns the last one of each record. */
async function writeUntilKilled(directory: string, round: number): Promise<ReadonlyMap<string, Acknowledged>> {
  const child = startChild('writer.ts', [directory, String(round), String(writers)])
  onTestFinished(() => child.kill())
  const acknowledged = new Map<string, Acknowledged>()
  const enough = 1 + Math.floor(Math.random() * 1_000)
  let killed: Promise<void> | undefined
  for (let count = 1; ; count++) {
    const line = await child.lines.next()
    if (line.done) break
    const [name = '', n, revision = ''] = line.value.split(' ')
    // An incomplete line is an acknowledged write whose report the kill cut off.
    if (revision !== '' || Number(n) % 10 === 0) acknowledged.set(name, { n: Number(n), revision })
    if (count >= enough) killed ??= child.kill()
  }
  await killed
  return acknowledged
}
