/** What a game leaves behind: files that are hard to remove, and processes that are hard to find. */
import { spawnSync } from 'node:child_process'
import { chmodSync, chownSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { afterEach, expect, test } from 'vitest'
import { ProcessBackend } from '../../../adapters/process/backend.js'
import { resolveProcessOptions } from '../../../adapters/process/options.js'
import { ProcessTable } from '../../../adapters/process/processes.js'
import { readGamePid } from '../../../adapters/process/run/supervisor.js'
import { removeTree } from '../../../adapters/process/files/instance-files.js'
import type { Logger } from '../../../src/contracts/logger.js'
import { testAsRoot } from './as-root.js'
import { cleanUp, exited, freshDirectory, gameOf, idle, numberIn, onCleanUp } from './support.js'
import { onlyInstance, open, runs, saysPid, specOf, until } from './support.js'

afterEach(cleanUp)

function recordingLogger(): Logger & { readonly warnings: string[] } {
  const nothing = () => {}
  const warnings: string[] = []
  const warn = (fields: object, message: string) => void warnings.push(`${message} ${JSON.stringify(fields)}`)
  return { debug: nothing, info: nothing, error: nothing, warn, warnings }
}

const instancesIn = (directory: string) => readdirSync(join(directory, 'instances'))

function supervisorIn(directory: string, name = 'arena-aaaaa'): number {
  return JSON.parse(readFileSync(join(directory, 'instances', `default.${name}`, 'instance.json'), 'utf8')).process.pid
}

function runOf(directory: string, name: string): string {
  const instance = join(directory, 'instances', `default.${name}`)
  return join(instance, readdirSync(instance).find((one) => one.startsWith('run-')) ?? '')
}

/** Starts a process in a session of its own, which outlives its parent. */
const detached = (path: string) =>
  `require('child_process').spawn(process.execPath, ['-e', ${JSON.stringify(saysPid(path) + idle)}],
    { detached: true, stdio: 'ignore' }).unref();`

test('a process that left its group is ended with its server, and reported', async () => {
  const directory = freshDirectory()
  const logger = recordingLogger()
  const backend = open(directory, { logger })
  const path = join(directory, 'child')
  const spec = gameOf(`${detached(path)}${idle}`, { ports: [7777] })
  await backend.create(spec)
  const child = await numberIn(path)
  await backend.destroy(spec.ref, spec.uid, { graceMs: 10_000 })
  expect(runs(child)).toBe(false)
  expect(logger.warnings).toEqual([expect.stringContaining('have left the process group')])
  expect(logger.warnings[0]).toContain(String(child))
})

test('a process that left its group is ended even if the game had already exited, and after a restart', async () => {
  const directory = freshDirectory()
  const path = join(directory, 'child')
  const first = open(directory)
  const spec = gameOf(
    `${detached(path)}setInterval(() => { if (require('fs').existsSync('${path}')) process.exit(3) }, 10)`,
  )
  await first.create(spec)
  const child = await numberIn(path)
  expect(await exited(first)).toMatchObject({ exitCode: 3 })
  await first.close()
  expect(runs(child)).toBe(true)
  // Longer than the test's timeout: what an ended game leaves has no grace period.
  await open(directory).destroy(spec.ref, spec.uid, { graceMs: 600_000 })
  expect(runs(child)).toBe(false)
})

test('a game with a cleared environment keeps running when its supervisor is killed, also after a restart', async () => {
  const directory = freshDirectory()
  const backend = open(directory)
  const path = join(directory, 'pid')
  const spec = specOf(['env', '-i', process.execPath, '-e', saysPid(path) + idle])
  await backend.create(spec)
  const pid = await numberIn(path)
  const supervisor = supervisorIn(directory)
  process.kill(supervisor, 'SIGKILL')
  await until('the supervisor is gone', () => !runs(supervisor))
  expect(await onlyInstance(backend)).toMatchObject({ phase: 'running' })
  await backend.close()

  const next = open(directory)
  expect(await onlyInstance(next)).toMatchObject({ phase: 'running' })
  expect(runs(pid)).toBe(true)
  await next.destroy(spec.ref, spec.uid, { graceMs: 10_000 })
  expect(runs(pid)).toBe(false)
})

test('many endings, and many supervisors gone at once, share their scans of the processes', async () => {
  const directory = freshDirectory()
  const specs = Array.from({ length: 30 }, (_, i) => specOf(['sleep', '600'], { name: `arena-${i}` }))
  const host = (processes: ProcessTable) => {
    const backend = new ProcessBackend(resolveProcessOptions({ directory, pollIntervalMs: 20 }), processes)
    onCleanUp(() => backend.close())
    return backend
  }
  const first = host(new ProcessTable())
  await Promise.all(specs.map((spec) => first.create(spec)))
  await first.close()
  const supervisors = specs.map(({ ref }) => supervisorIn(directory, ref.name))
  // An instance is created before its supervisor has started the game.
  await until('the games run', () => specs.every(({ ref }) => readGamePid(runOf(directory, ref.name)) !== undefined))
  for (const pid of supervisors) process.kill(pid, 'SIGKILL')
  await until('the supervisors are gone', () => !supervisors.some(runs))

  const processes = new ProcessTable()
  const next = host(processes)
  const listed = await next.list()
  expect(listed.map(({ phase }) => phase)).toEqual(specs.map(() => 'running'))
  expect(processes.scans).toBeLessThanOrEqual(2)
  for (let round = 0; round < 10; round++) await next.list()
  expect(processes.scans).toBeLessThanOrEqual(2)

  const games = await processes.snapshot()
  for (const [i, group] of supervisors.entries()) {
    const mark = basename(runOf(directory, `arena-${i}`)).slice('run-'.length)
    for (const { pid } of games.membersOf({ mark, group })) process.kill(pid, 'SIGKILL')
  }
  await until('all have exited', async () => (await next.list()).every(({ phase }) => phase === 'exited'))
  const before = processes.scans
  await Promise.all(specs.map((spec) => next.destroy(spec.ref, spec.uid, { graceMs: 0 })))
  expect(processes.scans - before).toBeLessThanOrEqual(2)
  expect(await next.list()).toEqual([])
})

test('a folder whose path is too long for the system is removed with its server', async () => {
  const directory = freshDirectory()
  const logger = recordingLogger()
  const backend = open(directory, { logger })
  const done = join(directory, 'done')
  const spec = gameOf(
    `process.chdir(require('path').dirname(process.env.GSDK_CONFIG_FILE) + '/GameLogs');
    for (let i = 0; i < 40; i++) { require('fs').mkdirSync('d'.repeat(200)); process.chdir('d'.repeat(200)) }
    ${saysPid(done)}${idle}`,
    { ports: [7777] },
  )
  await backend.create(spec)
  await numberIn(done)
  await backend.destroy(spec.ref, spec.uid, { graceMs: 0 })
  expect(await backend.list()).toEqual([])
  expect(instancesIn(directory)).toEqual([])
  expect(logger.warnings).toEqual([])
})

testAsRoot('a folder without permissions is removed by a host that is not root', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'gamekeeper-tree-'))
  const inner = join(folder, 'instance', 'closed')
  mkdirSync(inner, { recursive: true })
  writeFileSync(join(inner, 'file'), 'x')
  const nobody = 65_534
  for (const path of [folder, join(folder, 'instance'), inner, join(inner, 'file')]) chownSync(path, nobody, nobody)
  chmodSync(inner, 0)
  process.seteuid?.(nobody)
  try {
    await removeTree(join(folder, 'instance'))
  } finally {
    process.seteuid?.(0)
  }
  expect(readdirSync(folder)).toEqual([])
  await removeTree(folder)
})

testAsRoot(
  'a folder that cannot be removed keeps no port and no record; it is reported, and removed later',
  async () => {
    const directory = freshDirectory()
    const logger = recordingLogger()
    const portRange = { first: 21_817, last: 21_817 }
    const backend = open(directory, { logger, portRange })
    const spec = gameOf(saysPid(join(directory, 'pid')) + idle, { ports: [7777] })
    await backend.create(spec)
    await numberIn(join(directory, 'pid'))
    const mounted = join(directory, 'instances', 'default.arena-aaaaa', 'GameLogs')
    expect(spawnSync('mount', ['-t', 'tmpfs', 'tmpfs', mounted]).status).toBe(0)
    await backend.destroy(spec.ref, spec.uid, { graceMs: 0 })
    const [left = ''] = readdirSync(join(directory, 'trash'))
    onCleanUp(() => void spawnSync('umount', [join(directory, 'trash', left, 'GameLogs')]))
    expect(await backend.list()).toEqual([])
    expect(instancesIn(directory)).toEqual([])
    expect(logger.warnings).toEqual([expect.stringContaining('cannot remove the files of an ended server')])
    expect(logger.warnings[0]).toContain(join(directory, 'trash', left))
    const again = gameOf(idle, { ports: [7777], uid: 'another' })
    expect(await backend.create(again)).toMatchObject({ phase: 'running', ports: [{ public: portRange.first }] })
    await backend.close()

    expect(spawnSync('umount', [join(directory, 'trash', left, 'GameLogs')]).status).toBe(0)
    await open(directory, { portRange }).list()
    expect(readdirSync(join(directory, 'trash'))).toEqual([])
  },
)
