import { execFileSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, readdirSync, rmSync, truncateSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, describe, expect, test } from 'vitest'
import { abandoned, edit, listening, recordOf, recordPath } from './hosts.js'
import { cleanUp, exited, freshDirectory, gameOf, idle, onlyInstance, open, runs, saysPid, specOf } from './support.js'

afterEach(cleanUp)

describe('a running game is recovered from its process', () => {
  const instanceOf = (directory: string) => join(recordPath(directory), '..')
  const damages: [string, (directory: string) => void][] = [
    ['is truncated', (directory) => truncateSync(recordPath(directory), 40)],
    ['is empty', (directory) => truncateSync(recordPath(directory), 0)],
    ['has the format of another version', (directory) => edit(directory, (record) => (record['version'] = 2))],
    ['was deleted', (directory) => rmSync(recordPath(directory))],
    ['was deleted with its folder', (directory) => rmSync(instanceOf(directory), { recursive: true })],
    ['was deleted with all folders', (directory) => rmSync(join(directory, 'instances'), { recursive: true })],
    [
      'is of an earlier start with the same name',
      (directory) => edit(directory, (record) => (record['nonce'] = 'abc')),
    ],
    ['was written before its start', olderCopy],
    ['is a named pipe', (directory) => replaceBy(recordPath(directory), (path) => execFileSync('mkfifo', [path]))],
    [
      'is a folder',
      (directory) => replaceBy(recordPath(directory), (path) => mkdirSync(join(path, 'below'), { recursive: true })),
    ],
  ]

  /** What a backup contains that was taken while the server was being started. */
  function olderCopy(directory: string): void {
    edit(directory, (record) => delete record['process'])
    for (const name of readdirSync(instanceOf(directory)).filter((entry) => entry.startsWith('run-'))) {
      for (const file of ['pid', 'claim']) rmSync(join(instanceOf(directory), name, file))
    }
  }

  test.each(damages)('whose record %s: nothing is lost, and its exit code is reported', async (_, damage) => {
    const directory = freshDirectory()
    const says = saysPid(join(directory, 'pid'))
    const spec = gameOf(`process.on('SIGUSR2', () => process.exit(6));${says}${idle}`, { ports: [7777] })
    const pid = await abandoned(directory, spec, join(directory, 'pid'))
    const first = recordOf(directory)
    damage(directory)

    const next = open(directory)
    const found = await onlyInstance(next)
    expect(found).toMatchObject({ ref: spec.ref, uid: spec.uid, phase: 'running', address: '127.0.0.1' })
    expect(found.ports).toEqual(first.ports)
    expect(found.origin).toEqual({ build: first.origin.build, sessionHostId: spec.sdk.sessionHostId })
    expect(await next.create(spec)).toEqual(found)
    expect(runs(pid)).toBe(true)
    expect(recordOf(directory)).toEqual(first)
    await next.close()

    // The next host finds everything on disk again.
    const last = open(directory)
    process.kill(pid, 'SIGUSR2')
    expect(await exited(last)).toMatchObject({ exitCode: 6, uid: spec.uid })
    await last.destroy(spec.ref, spec.uid, { graceMs: 0 })
    expect(await last.list()).toEqual([])
  })

  test('also if its supervisor was killed', async () => {
    const directory = freshDirectory()
    const spec = gameOf(saysPid(join(directory, 'pid')) + idle)
    const pid = await abandoned(directory, spec, join(directory, 'pid'))
    process.kill(recordOf(directory).process.pid, 'SIGKILL')
    rmSync(join(directory, 'instances'), { recursive: true })
    const next = open(directory)
    expect(await onlyInstance(next)).toMatchObject({ uid: spec.uid, phase: 'running' })
    await next.destroy(spec.ref, spec.uid, { graceMs: 0 })
    expect(runs(pid)).toBe(false)
  })

  test('unless another directory manages it', async () => {
    const directory = freshDirectory()
    const pid = await abandoned(directory, gameOf(saysPid(join(directory, 'pid')) + idle), join(directory, 'pid'))
    expect(await open(freshDirectory()).list()).toEqual([])
    expect(runs(pid)).toBe(true)
  })

  test('a game whose process does not tell what it is keeps running, and its files are kept', async () => {
    const directory = freshDirectory()
    const pid = await abandoned(directory, gameOf(saysPid(join(directory, 'pid')) + idle), join(directory, 'pid'))
    const elsewhere = freshDirectory()
    // A copy of the directory: the games of the original are not its own.
    cpSync(join(directory, 'instances'), join(elsewhere, 'instances'), { recursive: true })
    truncateSync(recordPath(elsewhere), 0)
    const { logger, warnings } = listening()
    const next = open(elsewhere, { logger })
    expect(await next.list()).toEqual([])
    expect(warnings).toEqual([expect.stringContaining('instance not managed')])
    expect(runs(pid)).toBe(true)
    expect(existsSync(instanceOf(elsewhere))).toBe(true)
  })
})

test('a log that is not a file is refused by name, and never waited on', async () => {
  const directory = freshDirectory()
  const spec = specOf(['sleep', '600'])
  const log = join(directory, 'logs', 'default.arena-aaaaa.log')
  mkdirSync(join(directory, 'logs'))
  execFileSync('mkfifo', [log])
  const backend = open(directory)
  const refusal = { code: 'directory-unusable', message: expect.stringContaining(`${log} is a named pipe`) }
  await expect(backend.create(spec)).rejects.toMatchObject(refusal)
  await expect(backend.logs?.(spec.ref).next()).rejects.toMatchObject(refusal)
  rmSync(log)
  mkdirSync(log)
  await expect(backend.create(spec)).rejects.toMatchObject({
    message: expect.stringContaining(`${log} is a directory`),
  })
  rmSync(log, { recursive: true })
  expect(await backend.create(spec)).toMatchObject({ phase: 'running' })
})

function replaceBy(path: string, create: (path: string) => void): void {
  rmSync(path)
  create(path)
}
