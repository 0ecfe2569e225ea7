/** Damages the files of a store that is closed. */
import { open as openLmdb, type Database } from 'lmdb'
import { copyFile, mkdir, open, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type CollectionName, openCollections, openEnvironment } from '../../src/stores/lmdb-environment.js'
import { fileStore } from '../../src/stores/file.js'
import { minimalBuild, minimalDetail, minimalServer } from '../../src/testing/records.js'

/** Replaces one character of a text wherever the data contain it. */
export async function garble(directory: string, text: string): Promise<void> {
  const path = join(directory, 'data.mdb')
  const data = await readFile(path)
  for (let at = data.indexOf(text); at >= 0; at = data.indexOf(text, at + 1)) data.write('~', at + text.length - 1)
  // In place, as a disk does it.
  const file = await open(path, 'r+')
  await file.write(data)
  await file.close()
}

/** Changes records without the store's knowledge. */
export async function change(
  directory: string,
  collection: CollectionName,
  action: (records: Database<string, string>) => Promise<boolean>,
): Promise<void> {
  const environment = openEnvironment({ open: openLmdb }, directory)
  await action(openCollections(environment)[collection])
  await environment.root.close()
}

export const sessionOf = (n: number) => `9a6b2f0e-0000-4000-8000-${String(n).padStart(12, '0')}`
export const serverOf = (n: number) =>
  minimalServer({ namespace: 'default', name: `arena-${String(n).padStart(5, '0')}` })

/** Fills a store with servers, half of which have a session, and returns data.mdb as it was before the sessions. */
export async function fill(directory: string, servers: number): Promise<Buffer> {
  const store = await fileStore({ directory })
  await store.builds.create(minimalBuild({ namespace: 'default', name: 'arena' }))
  const revisions: string[] = []
  for (let n = 0; n < servers; n++) revisions.push(await store.servers.create(serverOf(n)))
  await store.close()
  const before = await readFile(join(directory, 'data.mdb'))
  await addSessions(directory, revisions.slice(0, servers / 2))
  return before
}

async function addSessions(directory: string, revisions: readonly string[]): Promise<void> {
  const store = await fileStore({ directory })
  for (const [n, revision] of revisions.entries()) {
    const session = { id: sessionOf(n), initialPlayers: ['amie'], number: 1, startedAt: 0 }
    await store.servers.update({ ...serverOf(n), state: 'Active', sessions: [session], startedSessions: 1 }, revision)
    await store.details.create({ ...minimalDetail(serverOf(n)), players: ['amie'] })
  }
  await store.close()
}

/** A copy of a closed store with other data. */
export async function copyWith(directory: string, target: string, data: Uint8Array): Promise<string> {
  await mkdir(target)
  await copyFile(join(directory, 'newest-version'), join(target, 'newest-version'))
  await writeFile(join(target, 'data.mdb'), data)
  return target
}
