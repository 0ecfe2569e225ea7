/** Another process uses data.mdb first: what lmdb writes passes, and damage that could end this process is refused. */
import { open as openLmdb } from 'lmdb'
import { readFile, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import type { Server } from '../../src/rules/model/resources.js'
import { openCollections, openEnvironment } from '../../src/stores/lmdb-environment.js'
import { fileStore } from '../../src/stores/file.js'
import { checkInChild } from '../../src/stores/child-check.js'
import { readFileStore } from '../../src/stores/read.js'
import { seededRandom } from '../../src/testing/virtual-clock.js'
import { minimalServer } from '../../src/testing/records.js'
import { copyWith, fill, serverOf } from './damage.js'
import { temporaryDirectory } from './temporary.js'

it('passes after each of many commits that grow, shrink and split everything, with long records', async () => {
  const directory = await temporaryDirectory()
  const environment = openEnvironment({ open: openLmdb }, directory)
  const { builds, servers, details } = openCollections(environment)
  const random = seededRandom(7)
  const below = (limit: number) => Math.floor(random() * limit)
  for (let commit = 0; commit < 120; commit++) {
    await environment.root.transaction(() => {
      for (let n = 0; n < 40; n++) {
        const collection = [builds, servers, details][below(3)] ?? builds
        const key = `default/arena-${String(below(500)).padStart(5 + below(60), '0')}`
        if (below(commit < 60 ? 4 : 2) === 0) void collection.remove(key)
        else void collection.put(key, 'x'.repeat(below(20) === 0 ? below(40_000) : below(600)), commit)
      }
    })
    if (commit % 10 === 0) await checkInChild(directory)
  }
  for (const collection of [builds, servers, details]) await collection.clearAsync()
  await checkInChild(directory)
  await environment.root.close()
})

it('a record with the longest possible name passes', async () => {
  const directory = await temporaryDirectory()
  const store = await fileStore({ directory })
  const ref = { namespace: 'default', name: 'x'.repeat(1_000) }
  await store.servers.create(minimalServer(ref))
  await store.close()
  const reopened = await fileStore({ directory })
  expect(await reopened.servers.get(ref)).toBeDefined()
  await reopened.close()
})

it('while a host writes, another one is told that the directory is in use', async () => {
  const directory = await temporaryDirectory()
  const store = await fileStore({ directory })
  // Two records fill a page, so that the check takes several turns.
  const records = Array.from({ length: 3_000 }, (_, n) => ({ ...serverOf(n), lastError: 'x'.repeat(1_200) }))
  let revisions = await Promise.all(records.map((record) => store.servers.create(record)))
  let isOver = false
  const write = async () => {
    while (!isOver) {
      const update = (record: Server, n: number) => store.servers.update(record, revisions[n] ?? '')
      revisions = await Promise.all(records.map(update))
    }
  }
  const writing = write()
  for (let n = 0; n < 10; n++)
    await expect(fileStore({ directory })).rejects.toMatchObject({ code: 'directory-in-use' })
  isOver = true
  await writing
  await store.close()
})

const page = 4_096
/** Offsets in the header of the newest commit, which is in one of the first two pages. */
const [keyFlags, depth, root, lastPage, commit] = [52, 102, 136, 144, 152]

type Damage = (data: Buffer, header: number, main: number) => void

async function damaged(damage: Damage): Promise<string> {
  const parent = await temporaryDirectory()
  const original = join(parent, 'original')
  await fill(original, 6)
  const data = await readFile(join(original, 'data.mdb'))
  const header = data.readBigUInt64LE(commit) >= data.readBigUInt64LE(page + commit) ? 0 : page
  damage(data, header, data.readUInt32LE(header + root) * page)
  return copyWith(original, join(parent, 'damaged'), data)
}

it.each<[string, string, Damage]>([
  ['page size', 'a process that used it ended with SIG', (data) => data.writeUInt8(1, 48)],
  ['root', 'Requested page not found', (data, at) => data.writeUInt32LE(9_999_999, at + root)],
  ['number of pages', 'its last page is far beyond its end', (data, at) => data.writeUInt32LE(1, at + lastPage + 4)],
  [
    'bounds of a page',
    'a process that used it ended with SIG',
    (data, _, main) => data.writeUInt16LE(9_000, main + 22),
  ],
  ['place of a record', 'Transaction must abort', (data, _, main) => data.writeUInt16LE(4_090, main + 24)],
  [
    'length of a key',
    'a process that used it ended with SIG',
    (data, _, main) => data.writeUInt16LE(60_000, firstNode(data, main) + 6),
  ],
  ['kind of a record', 'Transaction must abort', (data, _, main) => data.writeUInt16LE(4, firstNode(data, main) + 4)],
])('a damaged %s is refused: %s', async (_, problem, damage) => {
  const directory = await damaged(damage)
  for (const open of [fileStore, readFileStore]) {
    const message = `the store in ${directory} is damaged: data.mdb is damaged: `
    const refused = expect.objectContaining({ code: 'directory-unusable', message: expect.stringContaining(message) })
    const error: unknown = await open({ directory }).catch((reason: unknown) => reason)
    expect(error).toEqual(refused)
    expect(error).toMatchObject({ message: expect.stringContaining(problem) })
  }
})

it.each<[string, Damage]>([
  ['flags', (data, at) => data.writeUInt16LE(0x2008, at + keyFlags)],
  ['depth of a tree', (data, at) => data.writeUInt16LE(900, at + depth)],
  ['kind of a page', (data, at) => data.writeUInt16LE(2, at + depth)],
  ['number of a page', (data, _, main) => data.writeUInt32LE(3, main)],
  ['root of a collection', (data, _, main) => data.writeUInt32LE(main / page, firstNode(data, main) + 54)],
])('a damaged %s loses nothing', async (_, damage) => {
  const store = await fileStore({ directory: await damaged(damage) })
  await Promise.all(Array.from({ length: 100 }, (__, n) => store.servers.create(serverOf(100 + n))))
  expect(await store.check?.()).toMatchObject({ isWhole: true, records: { build: 1, server: 106, detail: 3 } })
  await store.close()
})

/** The first node of a page: the record `about` of the main tree, whose key and its end have 6 bytes. */
function firstNode(data: Buffer, at: number): number {
  return at + 24 + data.readUInt16LE(at + 24)
}

it('a file that is cut off is refused', async () => {
  const directory = await temporaryDirectory()
  await fill(directory, 6)
  await truncate(join(directory, 'data.mdb'), 3 * page)
  await expect(fileStore({ directory })).rejects.toThrow('is damaged: data.mdb is damaged: ')
})

it.each([
  ['program is an app of its own', '/usr/bin/app', '/usr/bin/app is not Node'],
  ['program cannot be started', '/nowhere/node', 'the process ended with 127'],
  ['program is another one', 'own', 'the process ended with 3'],
])('a store whose %s opens without the check, with a warning', async (_, program, reason) => {
  const directory = await temporaryDirectory()
  await fill(directory, 6)
  const { execPath } = process
  onTestFinished(() => void (process.execPath = execPath))
  process.execPath = program
  if (program === 'own') {
    process.execPath = join(await temporaryDirectory(), 'node')
    await writeFile(process.execPath, '#!/bin/sh\nexit 3\n', { mode: 0o700 })
  }
  const warned: object[] = []
  const ignore = () => {}
  const logger = { debug: ignore, info: ignore, warn: (fields: object) => warned.push(fields), error: ignore }
  const store = await fileStore({ directory, logger })
  expect(await store.servers.list()).toHaveLength(6)
  await store.close()
  expect(warned).toEqual([{ directory, reason }])
})
