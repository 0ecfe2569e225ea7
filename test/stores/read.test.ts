/** Reading a store without opening it: what a closed store holds, and nothing is changed. */
import { readdir, readFile, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { fileStore, readFileStore } from 'gamekeeper'
import { expect, it, onTestFinished } from 'vitest'
import { change, fill, garble, serverOf, sessionOf } from './damage.js'
import { temporaryDirectory } from './temporary.js'

async function filled(): Promise<string> {
  const directory = await temporaryDirectory()
  await fill(directory, 10)
  return directory
}

/** Names, times and bytes of all files. */
async function state(directory: string) {
  const names = (await readdir(directory)).toSorted()
  return Promise.all(
    names.map(async (name) => {
      const path = join(directory, name)
      return { name, changed: (await stat(path)).mtimeMs, bytes: (await readFile(path)).toString('base64') }
    }),
  )
}

it('returns all records of a store that is not in use, and changes nothing', async () => {
  const directory = await filled()
  const before = await state(directory)
  const { builds, servers, details } = await readFileStore({ directory })
  expect(builds.map(({ name }) => name)).toEqual(['arena'])
  expect(servers.map(({ name }) => name)).toEqual(Array.from({ length: 10 }, (_, n) => serverOf(n).name))
  expect(servers.map(({ sessions: [session] }) => session?.id).filter((id) => id !== undefined)).toHaveLength(5)
  expect(details).toHaveLength(5)
  expect(await state(directory)).toEqual(before)
})

it('is refused while the store is open, which goes on', async () => {
  const directory = await filled()
  const store = await fileStore({ directory })
  onTestFinished(() => store.close())
  await expect(readFileStore({ directory })).rejects.toMatchObject({
    code: 'directory-in-use',
    message: expect.stringContaining(`the directory ${directory} is in use by this process (${process.pid}); if`),
  })
  await store.servers.create(serverOf(99))
  await store.close()
  expect((await readFileStore({ directory })).servers).toHaveLength(11)
})

it('names what is damaged or missing', async () => {
  const directory = await filled()
  await garble(directory, sessionOf(3))
  await change(directory, 'servers', (records) => records.remove('default/arena-00007'))
  await expect(readFileStore({ directory })).rejects.toMatchObject({
    code: 'directory-unusable',
    message: `the store in ${directory} is damaged: server default/arena-00003 is damaged: its checksum does not match; 1 of 10 servers is missing; restore its whole directory from a backup`,
  })
})

it('of a directory without a store, or with something else in its place, is refused', async () => {
  const directory = await temporaryDirectory()
  const notFound = { code: 'not-found', message: `there is no store in ${directory}` }
  await expect(readFileStore({ directory })).rejects.toMatchObject(notFound)
  expect(await readdir(directory)).toEqual([])
  await rm(directory, { recursive: true })
  await expect(readFileStore({ directory })).rejects.toMatchObject(notFound)
})
