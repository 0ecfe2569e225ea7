/** Damaged and missing records are told by name when a store is opened, and by its check, and are never silently absent. */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileStore, type Store } from 'gamekeeper'
import { describe, expect, it, onTestFinished } from 'vitest'
import { change, fill, garble, serverOf, sessionOf } from './damage.js'
import { temporaryDirectory } from './temporary.js'

async function opened(directory: string): Promise<Store> {
  const store = await fileStore({ directory })
  onTestFinished(() => store.close())
  return store
}

const usable = { build: 1, server: 10, detail: 5, demand: 0 }
const whole = { isWhole: true, problems: [], damaged: [], affected: [], lostWrites: 0, records: usable }

async function filled(): Promise<string> {
  const directory = await temporaryDirectory()
  await fill(directory, 10)
  return directory
}

describe('a store', () => {
  it('without damage says so, also while a thousand writes go on, and so does its copy', async () => {
    const directory = await filled()
    const store = await opened(directory)
    expect(store.damage).toBeUndefined()
    expect(await store.check?.()).toEqual(whole)
    const writes = Array.from({ length: 1_000 }, (_, n) => store.servers.create(serverOf(1_000 + n)))
    expect(await store.check?.()).toMatchObject({ isWhole: true, problems: [] })
    await writes[500]
    expect(await store.check?.()).toMatchObject({ isWhole: true, problems: [] })
    await Promise.all(writes)
    expect(await store.check?.()).toMatchObject({ isWhole: true, records: { server: 1_010 } })
    const copy = join(await temporaryDirectory(), 'copy')
    await store.backup?.(copy)
    expect(await (await opened(copy)).check?.()).toMatchObject({ isWhole: true, records: { server: 1_010 } })
  })

  it('with a damaged record names it and refuses calls, until the loss is accepted', async () => {
    const directory = await filled()
    await garble(directory, sessionOf(3))
    const store = await fileStore({ directory })
    const problem = 'server default/arena-00003 is damaged: its checksum does not match'
    const damage = {
      isWhole: false,
      problems: [problem],
      damaged: [{ kind: 'server', key: 'default/arena-00003', problem: 'its checksum does not match' }],
      affected: ['server'],
      records: { ...usable, server: 9 },
    }
    expect(store.damage).toMatchObject(damage)
    expect(await store.check?.()).toMatchObject(damage)
    const refusal = {
      code: 'directory-unusable',
      message: `the store in ${directory} is damaged: ${problem}; restore its whole directory from a backup`,
    }
    await expect(store.servers.list()).rejects.toMatchObject(refusal)
    await expect(store.servers.get(serverOf(1))).rejects.toMatchObject(refusal)
    await expect(store.servers.create(serverOf(99))).rejects.toMatchObject(refusal)
    await store.close()

    const again = await opened(directory)
    expect(again.damage).toMatchObject(damage)
    await again.acceptDamage?.()
    expect(again.damage).toBeUndefined()
    expect(await again.servers.list()).toHaveLength(9)
    expect(await again.servers.get(serverOf(3))).toBeUndefined()
    await again.servers.create(serverOf(3))
    expect(await again.check?.()).toMatchObject({ isWhole: true, records: usable })
    await again.close()
    expect((await opened(directory)).damage).toBeUndefined()
  })

  it('whose record is damaged while it is open names it when it is read, and in its check', async () => {
    const directory = await filled()
    const store = await opened(directory)
    await garble(directory, sessionOf(3))
    await expect(store.servers.get(serverOf(3))).rejects.toMatchObject({
      code: 'unavailable',
      message: 'servers: record default/arena-00003 is damaged: its checksum does not match',
    })
    expect(await store.check?.()).toMatchObject({ damaged: [{ key: 'default/arena-00003' }] })
  })

  it.each<[string, string, (directory: string) => Promise<void>]>([
    [
      'record has vanished',
      '1 of 10 servers is missing',
      (directory) => change(directory, 'servers', (records) => records.remove('default/arena-00003')),
    ],
    [
      'record is an older version',
      'the details are not those that were written last',
      (directory) =>
        change(directory, 'details', async (records) => {
          const { value = '', version = 0 } = records.getEntry('default/arena-00003') ?? {}
          return records.put('default/arena-00003', value, version - 1)
        }),
    ],
    [
      'record is the record of another name',
      'server default/arena-00004 is damaged: its checksum does not match',
      (directory) =>
        change(directory, 'servers', async (records) => {
          const { value = '' } = records.getEntry('default/arena-00003') ?? {}
          return records.put('default/arena-00004', value, records.getEntry('default/arena-00004')?.version ?? 0)
        }),
    ],
    [
      'list of contents is damaged',
      'the list of what the store contains is damaged or missing',
      (directory) => garble(directory, '"builds":{"count":1'),
    ],
  ])('whose %s says so', async (_, problem, damage) => {
    const directory = await filled()
    await damage(directory)
    const store = await opened(directory)
    expect(store.damage?.problems).toContain(problem)
    await expect(store.servers.list()).rejects.toMatchObject({ code: 'directory-unusable' })
    await store.acceptDamage?.()
    expect((await store.servers.list()).length).toBeGreaterThanOrEqual(9)
    expect(await store.check?.()).toMatchObject({ isWhole: true })
  })

  it('whose data is older than what was written last says how many writes are missing', async () => {
    const directory = await temporaryDirectory()
    const before = await fill(directory, 10)
    await writeFile(join(directory, 'data.mdb'), before)
    const store = await opened(directory)
    expect(store.damage).toMatchObject({ lostWrites: 10, problems: [expect.stringContaining('newest 10 writes')] })
    await store.acceptDamage?.()
    const revisions = (await store.servers.list()).map(({ revision }) => Number(revision))
    // A version that was lost is not assigned again.
    expect(Number(await store.servers.create(serverOf(99)))).toBeGreaterThan(Math.max(...revisions) + 10)
  })
})
