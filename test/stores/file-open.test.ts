import { open as openLmdb } from 'lmdb'
import { execFile } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { mkdir, readdir, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { describe, expect, onTestFinished, test } from 'vitest'
import { currentProcess } from '../../src/platform/process-identity.js'
import { DirectoryLock } from '../../src/stores/directory-lock.js'
import { fileStore } from '../../src/stores/file.js'
import { readContents, sealRecord } from '../../src/stores/integrity.js'
import { openEnvironment } from '../../src/stores/lmdb-environment.js'
import { minimalBuild, minimalDemand, minimalServer } from '../../src/testing/records.js'
import { nextMessage, startChild, type StartOptions, testInNamespaces } from './child.js'
import { temporaryDirectory } from './temporary.js'

const ref = { namespace: 'default', name: 'arena' }

describe('the directory', () => {
  test('is created with its parents, accessible only to the user', async () => {
    const directory = join(await temporaryDirectory(), 'parent', 'store.d')
    const store = await fileStore({ directory })
    await store.servers.create(minimalServer(ref))
    await store.close()
    for (const path of [directory, join(directory, '..')]) expect((await stat(path)).mode & 0o777).toBe(0o700)
    expect((await readdir(directory)).toSorted()).toEqual(['data.mdb', 'lock.mdb', 'newest-version'])
    for (const file of await readdir(directory)) {
      expect((await stat(join(directory, file))).mode & 0o777).toBe(0o600)
    }
  })

  test('is rejected when it is a file', async () => {
    const directory = join(await temporaryDirectory(), 'file')
    await writeFile(directory, 'something else')
    await expect(fileStore({ directory })).rejects.toMatchObject({
      code: 'directory-unusable',
      message: expect.stringMatching(new RegExp(`cannot use the directory ${directory}: .*exists`)),
    })
  })

  test('is rejected when a parent is a file', async () => {
    const file = join(await temporaryDirectory(), 'file')
    await writeFile(file, 'something else')
    await expect(fileStore({ directory: join(file, 'store') })).rejects.toMatchObject({
      code: 'directory-unusable',
      message: expect.stringContaining('not a directory'),
    })
  })

  test('is rejected when it is not writable', async () => {
    const directory = await temporaryDirectory()
    await mkdir(join(directory, 'locked'), { mode: 0o500 })
    const child = startChild('holder.ts', [join(directory, 'locked', 'store'), '65534'])
    await nextMessage(child)
    child.say('open')
    expect(await nextMessage(child)).toEqual({
      code: 'directory-unusable',
      message: expect.stringContaining('permission denied'),
    })
    await child.ended()
  })

  test('is rejected when its data file is not a database', async () => {
    const directory = await temporaryDirectory()
    await writeFile(join(directory, 'data.mdb'), 'these are not the records you are looking for '.repeat(1_000))
    await expect(fileStore({ directory })).rejects.toMatchObject({ code: 'directory-unusable' })
  })

  test.each(['data.mdb', 'lock.mdb', 'newest-version'])(
    'is rejected by name, without waiting, when %s is not a file',
    async (name) => {
      const directory = await temporaryDirectory()
      const path = join(directory, name)
      const refusal = (what: string) => ({
        code: 'directory-unusable',
        message: expect.stringContaining(`${path} is ${what}, not a regular file`),
      })
      await promisify(execFile)('mkfifo', [path])
      await expect(fileStore({ directory })).rejects.toMatchObject(refusal('a named pipe'))
      await rm(path)
      await mkdir(path)
      await expect(fileStore({ directory })).rejects.toMatchObject(refusal('a directory'))
      await rm(path, { recursive: true })
      await (await fileStore({ directory })).close()
    },
  )

  test('is rejected when its data has a newer format, and is left unchanged', async () => {
    const directory = await temporaryDirectory()
    await writeAbout(directory, { format: '2' })
    await expect(fileStore({ directory })).rejects.toMatchObject({
      code: 'directory-unusable',
      message: expect.stringContaining('holds data of format 2'),
    })
    expect(await readAbout(directory)).toEqual({ format: '2' })
  })
})

describe('a directory with one writer at a time', () => {
  test('a second store in the same process is rejected, and the first keeps working', async () => {
    const directory = await temporaryDirectory()
    const store = await fileStore({ directory })
    const revision = await store.servers.create(minimalServer(ref))
    const writes = store.servers.update(minimalServer(ref), revision)
    await expect(fileStore({ directory })).rejects.toMatchObject({
      code: 'directory-in-use',
      message: expect.stringContaining(`the directory ${directory} is in use by this process (${process.pid}); if`),
    })
    await store.servers.update({ ...minimalServer(ref), node: 'here' }, await writes)
    expect((await store.servers.get(ref))?.record.node).toBe('here')
    await store.close()
    const next = await fileStore({ directory })
    expect((await next.servers.get(ref))?.record.node).toBe('here')
    await next.close()
  })

  test('another process is rejected with the pid of the holder', async () => {
    const directory = await temporaryDirectory()
    const holder = await startHolder(directory)
    await expect(fileStore({ directory })).rejects.toMatchObject({
      code: 'directory-in-use',
      message: `the directory ${directory} is in use by process ${holder.pid}`,
    })
    holder.say('close')
    await holder.ended()
    await (await fileStore({ directory })).close()
  })

  testInNamespaces('a process of another PID namespace with the same pid is rejected', async () => {
    const directory = await temporaryDirectory()
    const holder = await startHolder(directory, { ownPidNamespace: true })
    const other = startChild('holder.ts', [directory], { ownPidNamespace: true })
    onTestFinished(() => other.kill())
    await nextMessage(other)
    other.say('open')
    expect(await nextMessage(other)).toMatchObject({ code: 'directory-in-use' })
    await expect(fileStore({ directory })).rejects.toMatchObject({ code: 'directory-in-use' })
    await holder.kill()
    await (await fileStore({ directory })).close()
  })

  test('a holder whose pid does not exist here is alive while its socket is open', async () => {
    const directory = await temporaryDirectory()
    const lock = await DirectoryLock.open(directory)
    const elsewhere = { pid: 4_194_305, startedAt: 'in another container', hostname: 'web-1', socket: lock.socket }
    await writeAbout(directory, { holder: JSON.stringify(elsewhere) })
    await expect(fileStore({ directory })).rejects.toMatchObject({ code: 'directory-in-use' })
    await lock.close()
    await (await fileStore({ directory })).close()
  })

  test('a killed holder does not block the next process, which logs the takeover', async () => {
    const directory = await temporaryDirectory()
    const holder = await startHolder(directory)
    await holder.kill()
    const logged: object[] = []
    const ignore = () => {}
    const logger = { debug: ignore, info: (fields: object) => logged.push(fields), warn: ignore, error: ignore }
    await (await fileStore({ directory, logger })).close()
    expect(logged).toEqual([{ directory, pid: holder.pid }])
  })

  test('when several hosts find a dead holder at the same time, exactly one takes over', async () => {
    const directory = await temporaryDirectory()
    const holder = await startHolder(directory)
    await holder.kill()
    const opened = await Promise.allSettled(Array.from({ length: 8 }, () => fileStore({ directory })))
    const stores = opened.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []))
    await Promise.all(stores.map((store) => store.close()))
    expect(stores).toHaveLength(1)
  })

  test('a dead holder whose process ID was reused does not block the next process', async () => {
    const directory = await temporaryDirectory()
    await writeAbout(directory, { holder: JSON.stringify({ ...currentProcess(), startedAt: 'long ago' }) })
    await (await fileStore({ directory })).close()
  })

  test('exactly one of several processes that open it concurrently succeeds', async () => {
    const directory = join(await temporaryDirectory(), 'store')
    const children = Array.from({ length: 4 }, () => startChild('holder.ts', [directory]))
    onTestFinished(async () => {
      await Promise.all(children.map((child) => child.kill()))
    })
    await Promise.all(children.map(nextMessage))
    for (const child of children) child.say('open')
    const answers = await Promise.all(children.map(nextMessage))
    const winners = children.filter((_, i) => isOpened(answers[i]))
    expect(winners).toHaveLength(1)
    const losers = answers.filter((answer) => !isOpened(answer))
    // While the winner creates the database, others see its lock, but not yet its pid.
    const messages = [`process ${winners[0]?.pid}`, 'a running host'].map(
      (who) => `the directory ${directory} is in use by ${who}`,
    )
    for (const answer of losers)
      expect(answer).toEqual({ code: 'directory-in-use', message: expect.toBeOneOf(messages) })
  })

  test('a closing store holds its directory until its last write is durable', async () => {
    const directory = await temporaryDirectory()
    const store = await fileStore({ directory })
    const locks = () => readdirSync(directory).filter((name) => name.endsWith('.sock'))
    const heldWhenWritten = store.servers.create(minimalServer(ref)).then(locks)
    await store.close()
    expect(await heldWhenWritten).toHaveLength(1)
    expect(locks()).toEqual([])
  })

  test('after close, whether called once or repeatedly, another process can open it', async () => {
    const directory = await temporaryDirectory()
    for (let round = 0; round < 3; round++) {
      const store = await fileStore({ directory })
      await Promise.all([store.close(), store.close()])
      await store.close()
      expect(await readAbout(directory)).not.toHaveProperty('holder')
    }
  })
})

test('lmdb’s native binary is loaded only when a store is opened', async () => {
  const file = new URL('../../src/stores/file.js', import.meta.url).href
  const loaded = `process.report.getReport().sharedObjects.some((path) => path.includes('lmdb'))`
  const script = `
    process.report.excludeNetwork = true
    const { fileStore } = await import('${file}')
    const before = ${loaded}
    const store = await fileStore({ directory: process.argv[1] })
    console.log(before, ${loaded})
    await store.close()`
  const args = ['--import', import.meta.resolve('tsx'), '--input-type=module', '-e', script, await temporaryDirectory()]
  const { stdout } = await promisify(execFile)(process.execPath, args)
  expect(stdout.trim()).toBe('false true')
})

async function startHolder(directory: string, options: StartOptions = {}) {
  const child = startChild('holder.ts', [directory], options)
  onTestFinished(() => child.kill())
  await nextMessage(child)
  child.say('open')
  expect(await nextMessage(child)).toEqual({ opened: options.ownPidNamespace ? 1 : child.pid })
  return child
}

function isOpened(answer: unknown): boolean {
  return typeof answer === 'object' && answer !== null && 'opened' in answer
}

async function writeAbout(directory: string, values: Readonly<Record<string, string>>): Promise<void> {
  const root = openLmdb<string, string>(directory, { encoding: 'string', overlappingSync: false })
  const about = root.openDB<string, string>('about', { encoding: 'string' })
  for (const [key, value] of Object.entries(values)) await about.put(key, value)
  await root.close()
}

async function readAbout(directory: string): Promise<Record<string, string>> {
  const root = openLmdb<string, string>(directory, { encoding: 'string', overlappingSync: false })
  const about = root.openDB<string, string>('about', { encoding: 'string' })
  const values = Object.fromEntries(Array.from(about.getRange(), ({ key, value }) => [key, value]))
  await root.close()
  return values
}

test('opens a store whose list of contents does not name a collection that has come since', async () => {
  const directory = await temporaryDirectory()
  const store = await fileStore({ directory })
  await store.builds.create(minimalBuild({ namespace: 'default', name: 'arena' }))
  await store.close()
  const environment = openEnvironment({ open: openLmdb }, directory)
  const { demand: _, ...known } = readContents(environment.root) ?? { demand: undefined }
  await environment.root.put('contents', sealRecord('contents', 0, JSON.stringify(known)))
  await environment.root.close()
  const reopened = await fileStore({ directory })
  expect(reopened.damage).toBeUndefined()
  expect(await reopened.builds.list()).toHaveLength(1)
  await reopened.demand?.create(minimalDemand({ namespace: 'default', name: 'arena.2026-01-02' }))
  expect(await reopened.check?.()).toMatchObject({ isWhole: true })
  await reopened.close()
})
