import { open as openLmdb } from 'lmdb'
import { expect, onTestFinished, test } from 'vitest'
import { openEnvironment, type OpenEnvironment, openForWriting } from '../../src/stores/lmdb-environment.js'
import { GroupWriter } from '../../src/stores/group-writer.js'
import { encode, NewestVersion, openContents, readContents, sealRecord } from '../../src/stores/integrity.js'
import { temporaryDirectory } from './temporary.js'

interface Faults {
  /** The next transaction fails, and the environment is unusable afterwards. */
  die: boolean
  diskFull: boolean
  /** Number of transactions that succeed before that. */
  spared: number
}

test('a database that is unusable after a failed write is reopened, and reads and writes work again', async () => {
  const { writer, faults, opened } = await startWriter()
  const first = await create(writer, 'arena-1')
  faults.die = true
  const failed = create(writer, 'arena-2')
  await expect(failed).rejects.toMatchObject({
    code: 'unavailable',
    message: 'writing default/arena-2 to details failed: the disk is on fire',
    cause: new Error('the disk is on fire'),
  })
  const { details } = writer.environment.collections
  expect(details.getEntry('default/arena-1')).toEqual({
    value: sealRecord('default/arena-1', first ?? 0, '{}'),
    version: first,
  })
  expect(details.doesExist('default/arena-2')).toBe(false)
  expect(await create(writer, 'arena-2')).toBeGreaterThan(first ?? 0)
  expect(opened()).toBe(2)
})

test('all writes of a failed transaction fail, and later writes succeed', async () => {
  const { writer, faults } = await startWriter()
  faults.die = true
  const failed = ['arena-1', 'arena-2', 'arena-3'].map((name) => create(writer, name))
  const later = failed.map((write) => write.catch(() => create(writer, `later-${failed.indexOf(write)}`)))
  for (const one of await Promise.allSettled(failed)) expect(one.status).toBe('rejected')
  expect(new Set(await Promise.all(later)).size).toBe(3)
})

test.each(['die', 'diskFull'] as const)(
  'of a thousand writes, those of the first transaction are answered although the second one fails (%s)',
  async (fault) => {
    const { writer, faults } = await startWriter()
    Object.assign(faults, { [fault]: true, spared: 1 })
    const writes = Array.from({ length: 1_000 }, (_, n) => create(writer, `arena-${n}`))
    const outcomes = await Promise.allSettled(writes)
    const last = outcomes.findLastIndex(({ status }) => status === 'fulfilled')
    expect(last).toBeGreaterThan(0)
    expect(last).toBeLessThan(999)
    expect(outcomes.map(({ status }) => status)).toEqual(outcomes.map((_, n) => (n <= last ? 'fulfilled' : 'rejected')))
    expect(writer.environment.collections.details.getCount()).toBe(last + 1)
    faults.diskFull = false
    expect(await create(writer, `arena-${last + 1}`)).toBeGreaterThan(last + 1)
  },
)

test('writes are rejected while the disk is full, except removals, and work again afterwards', async () => {
  const { writer, faults, opened } = await startWriter()
  const ifVersion = await create(writer, 'arena-0')
  faults.diskFull = true
  for (const name of ['arena-1', 'arena-2']) {
    await expect(create(writer, name)).rejects.toMatchObject({ code: 'unavailable', cause: { code: 'ENOSPC' } })
  }
  const together = [create(writer, 'arena-3'), remove(writer, 'arena-0', ifVersion ?? 0)]
  expect((await Promise.allSettled(together)).map(({ status }) => status)).toEqual(['rejected', 'fulfilled'])
  expect(writer.environment.collections.details.getCount()).toBe(0)
  faults.diskFull = false
  expect(await create(writer, 'arena-1')).toBeGreaterThan(0)
  expect(opened()).toBe(1)
})

test('a version is never used twice, even if its write failed', async () => {
  const { writer, faults } = await startWriter()
  const seen = new Set<number>()
  for (let n = 0; n < 20; n++) {
    faults.die = n % 3 === 0
    const version = await create(writer, `arena-${n}`).catch(() => undefined)
    if (version === undefined) continue
    expect(seen.has(version)).toBe(false)
    expect(readContents(writer.environment.root)?.lastVersion).toBe(version)
    seen.add(version)
  }
  expect(seen.size).toBe(13)
})

function create(writer: GroupWriter, name: string): Promise<number | undefined> {
  return writer.write({ collection: 'details', key: `default/${name}`, value: encode('{}'), signal: undefined })
}

function remove(writer: GroupWriter, name: string, ifVersion: number): Promise<number | undefined> {
  return writer.write({ collection: 'details', key: `default/${name}`, ifVersion, signal: undefined })
}

async function startWriter() {
  const directory = await temporaryDirectory()
  const faults: Faults = { die: false, diskFull: false, spared: 0 }
  let opened = 0
  const openIt = () => {
    opened++
    return breakable(openForWriting(openEnvironment({ open: openLmdb }, directory)), faults)
  }
  const environment = openIt()
  const freeBytes = () => (faults.diskFull && faults.spared-- <= 0 ? 2 ** 22 : 2 ** 30)
  const contents = openContents(environment, environment.collections)
  if (!contents) throw new Error('the new store is damaged')
  const newestVersion = new NewestVersion(directory)
  const reopen = () => Promise.resolve(openIt())
  const writer = new GroupWriter({ environment, freeBytes, newestVersion, contents, reopen })
  onTestFinished(() => writer.close())
  return { writer, faults, opened: () => opened }
}

/** A real environment that can fail like lmdb after a failed write of its header. */
function breakable(environment: OpenEnvironment, faults: Faults): OpenEnvironment {
  const { root } = environment
  const batch = root.batch.bind(root)
  const transactionSync = root.transactionSync.bind(root)
  let dead = false
  root.batch = (action) => {
    if (!faults.die || faults.spared-- > 0) return batch(action)
    faults.die = false
    dead = true
    const commitError = Promise.reject(new Error('the disk is on fire'))
    return Promise.reject(Object.assign(new Error('Commit failed (see commitError for details)'), { commitError }))
  }
  root.transactionSync = (action, flags) => {
    if (dead) throw new Error('MDB_PANIC: Update of meta page failed or environment had fatal error')
    return transactionSync(action, flags)
  }
  return environment
}
