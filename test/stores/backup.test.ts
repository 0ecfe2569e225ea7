/** A file store is copied while it is in use, and the copy opens with everything that was durable. */
import { readdir, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createFleet, fileStore, memoryStore, type Store, systemClock } from 'gamekeeper'
import { memoryBackend } from 'gamekeeper/memory'
import { describe, expect, it, onTestFinished } from 'vitest'
import { minimalBuild, minimalDetail, minimalServer } from '../../src/testing/records.js'
import { temporaryDirectory } from './temporary.js'

async function opened(directory: string): Promise<Store> {
  const store = await fileStore({ directory })
  onTestFinished(() => store.close())
  return store
}

const named = (n: number) => ({ namespace: 'default', name: `arena-${n}` })
const namesIn = async ({ servers }: Store) => (await servers.list()).map(({ record }) => record.name).toSorted()

describe('a backup', () => {
  it('opens as a store with all records, beside the one it was made of', async () => {
    const [directory, parent] = [await temporaryDirectory(), await temporaryDirectory()]
    const store = await opened(directory)
    await store.builds.create(minimalBuild(named(0)))
    const revision = await store.servers.create(minimalServer(named(1)))
    await store.details.create({ ...minimalDetail(named(1)), players: ['amie'] })
    const target = join(parent, 'monday', 'store')
    await store.backup?.(target)
    const copy = await opened(target)
    for (const name of ['builds', 'servers', 'details'] as const) {
      expect(await copy[name].list()).toEqual(await store[name].list())
    }
    // Both are in use, and neither changes the other. A version is never used twice.
    await copy.servers.delete(named(1), revision)
    expect(await copy.servers.create(minimalServer(named(2)))).not.toBe(revision)
    expect(await namesIn(store)).toEqual(['arena-1'])
  })

  it('has every record that was durable before, while a thousand writes go on', async () => {
    const [directory, parent] = [await temporaryDirectory(), await temporaryDirectory()]
    const store = await opened(directory)
    const before = Array.from({ length: 200 }, (_, n) => named(n))
    await Promise.all(before.map((ref) => store.servers.create(minimalServer(ref))))
    const writes = Array.from({ length: 1_000 }, (_, n) => store.servers.create(minimalServer(named(1_000 + n))))
    const backups = [1, 2].map(async (n) => {
      await store.backup?.(join(parent, String(n)))
      return namesIn(await opened(join(parent, String(n))))
    })
    for (const names of await Promise.all(backups)) {
      expect(names).toEqual(expect.arrayContaining(before.map(({ name }) => name)))
    }
    await Promise.all(writes)
    expect(await namesIn(store)).toHaveLength(1_200)
  })

  it('is finished before the store closes', async () => {
    const [directory, parent] = [await temporaryDirectory(), await temporaryDirectory()]
    const store = await fileStore({ directory })
    await store.servers.create(minimalServer(named(1)))
    const backup = store.backup?.(join(parent, 'copy'))
    await store.close()
    await backup
    expect(await namesIn(await opened(join(parent, 'copy')))).toEqual(['arena-1'])
    await expect(store.backup?.(join(parent, 'late'))).rejects.toMatchObject({ code: 'closed' })
  })

  it('is readable by its owner only, and contains nothing but the data', async () => {
    const [directory, target] = [await temporaryDirectory(), await temporaryDirectory()]
    const store = await opened(directory)
    await store.backup?.(target)
    expect(await readdir(target)).toEqual(['data.mdb'])
    expect((await stat(join(target, 'data.mdb'))).mode & 0o077).toBe(0)
  })

  it.each<[string, (parent: string) => Promise<string>, object]>([
    [
      'a directory that is not empty',
      async (parent) => {
        await writeFile(join(parent, 'letter.txt'), 'dear')
        return parent
      },
      { code: 'invalid', message: expect.stringMatching(/ is not empty$/) },
    ],
    [
      'a file',
      async (parent) => {
        await writeFile(join(parent, 'letter.txt'), 'dear')
        return join(parent, 'letter.txt')
      },
      { code: 'directory-unusable', message: expect.stringContaining('letter.txt') },
    ],
    [
      'a directory below a file',
      async (parent) => {
        await writeFile(join(parent, 'letter.txt'), 'dear')
        return join(parent, 'letter.txt', 'copy')
      },
      { code: 'directory-unusable' },
    ],
    ['a place where nothing can be written', () => Promise.resolve('/proc/copy'), { code: 'directory-unusable' }],
    [
      'an empty path',
      () => Promise.resolve(''),
      { code: 'invalid', message: 'store.backup: the directory must be a path, but is ""' },
    ],
  ])('to %s is refused, and leaves nothing behind', async (_, targetIn, error) => {
    const [directory, parent] = [await temporaryDirectory(), await temporaryDirectory()]
    const fleet = await createFleet({ backend: memoryBackend({ clock: systemClock }), store: await opened(directory) })
    onTestFinished(() => fleet.close())
    await expect(fleet.store.backup(await targetIn(parent))).rejects.toMatchObject(error)
    expect((await readdir(parent)).filter((name) => name !== 'letter.txt')).toEqual([])
  })
})

describe('a fleet', () => {
  it('is backed up with its sessions, and another is started from the copy', async () => {
    const [directory, parent] = [await temporaryDirectory(), await temporaryDirectory()]
    const backend = memoryBackend({ clock: systemClock })
    const fleet = await createFleet({ backend, store: await fileStore({ directory }) })
    await fleet.builds.create({
      metadata: { name: 'arena' },
      spec: {
        ...{ buildID: 'arena', standingBy: 1, max: 2, portsToExpose: [7777] },
        template: { spec: { containers: [{ name: 'game', image: 'arena:1' }] } },
      },
    })
    const session = { buildID: 'arena', sessionID: '9a6b2f0e-0000-4000-8000-000000000000' }
    const allocation = await fleet.allocate(session, { waitMs: 10_000 })
    await fleet.store.backup(join(parent, 'copy'))
    await fleet.close()
    const restored = await createFleet({ backend, store: await opened(join(parent, 'copy')) })
    onTestFinished(() => restored.close())
    expect(await restored.allocate(session)).toEqual(allocation)
  })

  it('whose store keeps no files says so', async () => {
    const fleet = await createFleet({ backend: memoryBackend({ clock: systemClock }), store: memoryStore() })
    onTestFinished(() => fleet.close())
    await expect(fleet.store.backup(join(await temporaryDirectory(), 'copy'))).rejects.toMatchObject({
      code: 'unsupported',
    })
  })
})
