import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, existsSync, mkdirSync, openSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { afterEach, expect, test, vi } from 'vitest'
import { InstanceFiles } from '../../../adapters/process/files/instance-files.js'
import { cancelStart, startSupervisor } from '../../../adapters/process/run/supervisor.js'
import { processIdentity } from '../../../src/platform/process-identity.js'
import { abandoned, edit, listening, recordOf, recordPath, startHost } from './hosts.js'
import { cleanUp, contentOf, exited, freshDirectory, gameOf, idle, numberIn, onCleanUp } from './support.js'
import { onlyInstance, open, runs, saysPid, specOf, until } from './support.js'

afterEach(cleanUp)

test('a game survives when its host is killed; the next host recovers it, reports its exit and can start another', async () => {
  const directory = freshDirectory()
  const spec = gameOf(`process.on('SIGUSR2', () => process.exit(6));${saysPid(join(directory, 'pid'))}${idle}`, {
    ports: [7777],
  })
  const pid = await abandoned(directory, spec, join(directory, 'pid'))
  expect(runs(pid)).toBe(true)

  const next = open(directory)
  const found = await onlyInstance(next)
  expect(found).toMatchObject({ ref: spec.ref, uid: spec.uid, phase: 'running', address: '127.0.0.1' })
  expect(found.ports).toHaveLength(1)
  expect(await next.create(spec)).toEqual(found)

  const phases: string[] = []
  next.watch({
    changed: (instance) => void phases.push(`${instance.phase} ${instance.exitCode}`),
    gone: () => {},
    resync: () => {},
    heartbeat: () => ({ operation: 'Continue', nextHeartbeatIntervalMs: 1_000 }),
  })
  process.kill(pid, 'SIGUSR2')
  await until('the exit is reported', () => phases.length > 0)
  expect(phases).toEqual(['exited 6'])
})

test('a game that exits while no host is running is reported with its exit code', async () => {
  const directory = freshDirectory()
  const pid = await abandoned(directory, gameOf(saysPid(join(directory, 'pid')) + idle), join(directory, 'pid'))
  process.kill(pid, 'SIGKILL')
  await until('its exit is recorded', () => {
    const [run = ''] = readdirSync(join(recordPath(directory), '..')).filter((name) => name.startsWith('run-'))
    return contentOf(join(recordPath(directory), '..', run, 'exit')) === '137\n'
  })
  expect(await exited(open(directory))).toMatchObject({ exitCode: 137 })
})

test('a recovered game can be terminated like any other', async () => {
  const directory = freshDirectory()
  const spec = gameOf(`process.on('SIGTERM', () => {});${saysPid(join(directory, 'pid'))}${idle}`)
  const pid = await abandoned(directory, spec, join(directory, 'pid'))
  const next = open(directory)
  await next.destroy(spec.ref, spec.uid, { graceMs: 100 })
  expect(runs(pid)).toBe(false)
  expect(await next.list()).toEqual([])
})

test('a game whose host was killed before it recorded the process is recovered from the supervisor’s files', async () => {
  const directory = freshDirectory()
  const spec = gameOf(saysPid(join(directory, 'pid')) + idle)
  const pid = await abandoned(directory, spec, join(directory, 'pid'))
  edit(directory, (record) => delete record['process'])
  const next = open(directory)
  expect(await next.create(spec)).toMatchObject({ phase: 'running', uid: spec.uid })
  expect(recordOf(directory).process).toMatchObject({ pid: expect.any(Number) })
  await next.destroy(spec.ref, spec.uid, { graceMs: 0 })
  expect(runs(pid)).toBe(false)
})

test('a recorded start without a process is cancelled: it is not listed, and a late supervisor starts nothing', async () => {
  const directory = freshDirectory()
  const started = join(directory, 'started')
  const runDirectory = join(directory, 'run-abc')
  mkdirSync(runDirectory)
  expect(cancelStart(runDirectory)).toBe(true)
  const log = openSync(join(directory, 'log'), 'a')
  const supervisor = await startSupervisor({
    runDirectory,
    mark: 'abc',
    program: '/bin/sh',
    args: ['-c', `echo >${started}`],
    env: {},
    workingDir: directory,
    helpers: [],
    guardsHelpers: false,
    stdin: false,
    endsWithHost: false,
    cgroups: [],
    log,
  })
  closeSync(log)
  await until('the supervisor has ended', () => supervisor?.hasEnded)
  expect(existsSync(started)).toBe(false)
  expect(readFileSync(join(runDirectory, 'exit'), 'utf8')).toBe('125\n')
})

test('a record that was never started is not an instance, and its name can be reused', async () => {
  const directory = freshDirectory()
  const spec = specOf(['sleep', '600'])
  const first = open(directory)
  await first.create(spec)
  await first.destroy(spec.ref, spec.uid, { graceMs: 0 })
  const instance = join(recordPath(directory), '..')
  mkdirSync(join(instance, 'run-abc'), { recursive: true })
  const record = { version: 1, ref: spec.ref, uid: spec.uid, address: 'a', node: 'n', ports: [], nonce: 'abc' }
  writeFileSync(recordPath(directory), JSON.stringify(record))
  const next = open(directory)
  expect(await next.list()).toEqual([])
  expect(existsSync(instance)).toBe(false)
  expect(await next.create(spec)).toMatchObject({ phase: 'running' })
})

test('a game whose record cannot be written is not started', async () => {
  const directory = freshDirectory()
  const full = Object.assign(new Error('no space left on device'), { code: 'ENOSPC' })
  const writes = vi.spyOn(InstanceFiles.prototype, 'writeRecord').mockRejectedValueOnce(full)
  onCleanUp(() => writes.mockRestore())
  await expect(open(directory).create(gameOf(idle))).rejects.toMatchObject({ code: 'unavailable' })
  expect(await open(directory).list()).toEqual([])
})

test('another process that reuses the process ID is neither recovered nor killed', async () => {
  const directory = freshDirectory()
  const foreign = spawn('sleep', ['600'], { detached: true, stdio: 'ignore' })
  onCleanUp(() => void foreign.kill('SIGKILL'))
  const pid = foreign.pid ?? 0
  const spec = gameOf(saysPid(join(directory, 'pid')) + idle)
  process.kill(await abandoned(directory, spec, join(directory, 'pid')), 'SIGKILL')
  const supervisor = recordOf(directory).process.pid
  await until('the supervisor is gone', () => !runs(supervisor))
  const [run = ''] = readdirSync(join(recordPath(directory), '..')).filter((name) => name.startsWith('run-'))
  writeFileSync(join(recordPath(directory), '..', run, 'exit'), '')
  edit(directory, (record) => {
    record['process'] = { pid, startedAt: 'another time' }
    delete record['exit']
  })
  const next = open(directory)
  const instance = await onlyInstance(next)
  expect(instance).toMatchObject({ phase: 'exited' })
  expect(instance).not.toHaveProperty('exitCode')
  await next.destroy(spec.ref, spec.uid, { graceMs: 0 })
  expect(await next.list()).toEqual([])
  expect(processIdentity(pid)).toBeDefined()
})

test('the start time of a process is recorded with the boot ID', async () => {
  const directory = freshDirectory()
  const spec = gameOf(idle)
  const first = open(directory)
  await first.create(spec)
  await until('it is recorded', () => recordOf(directory)?.process)
  const before = recordOf(directory).process
  expect(processIdentity(before.pid)?.startedAt).toBe(before.startedAt)
  if (process.platform === 'linux') expect(before.startedAt).toMatch(/^[0-9a-f-]{36}:\d+$/)
})

test('an instance whose record is unreadable and whose game has ended is logged and removed, and others are kept', async () => {
  const directory = freshDirectory()
  const pid = await abandoned(directory, gameOf(saysPid(join(directory, 'pid')) + idle), join(directory, 'pid'))
  process.kill(-recordOf(directory).process.pid, 'SIGKILL')
  await until('its game is gone', () => !runs(pid))
  writeFileSync(recordPath(directory), '{"version":1,')
  const other = join(directory, 'instances', 'default.other')
  mkdirSync(other)
  const foreign = join(directory, 'instances', 'README')
  mkdirSync(foreign)
  const { logger, warnings } = listening()
  const next = open(directory, { logger })
  expect(await next.list()).toEqual([])
  expect(warnings).toEqual([expect.stringContaining('record is unreadable')])
  expect(readdirSync(join(directory, 'instances'))).toEqual(['README'])
})

test('Ctrl-C in the host’s terminal does not reach the games', async () => {
  const directory = freshDirectory()
  const host = fileURLToPath(new URL('host.ts', import.meta.url))
  const specs = JSON.stringify([gameOf(saysPid(join(directory, 'pid')) + idle)])
  const args = ['--import', 'tsx', host, directory, specs]
  const grouped = spawn(process.execPath, args, { detached: true, stdio: 'ignore' })
  onCleanUp(() => void grouped.kill('SIGKILL'))
  const pid = await numberIn(join(directory, 'pid'))
  // Like a terminal: signals the whole process group of the host.
  process.kill(-(grouped.pid ?? 0), 'SIGINT')
  await once(grouped, 'exit')
  expect(runs(pid)).toBe(true)
  expect(await onlyInstance(open(directory))).toMatchObject({ phase: 'running' })
})

test('Ctrl-C while the host starts games, at any moment of a start, fails none', async () => {
  const directory = freshDirectory()
  const host = fileURLToPath(new URL('host.ts', import.meta.url))
  const names = Array.from({ length: 6 }, (_, i) => `arena-${i}`)
  const specs = JSON.stringify(names.map((name) => specOf(['sleep', '600'], { name, ports: [] })))
  const ignoring = 'data:text/javascript,process.on("SIGINT",()=>{})'
  const args = ['--import', ignoring, '--import', 'tsx', host, directory, specs]
  const grouped = spawn(process.execPath, args, { detached: true, stdio: ['ignore', 'pipe', 'inherit'] })
  onCleanUp(() => void grouped.kill('SIGKILL'))
  const created: string[] = []
  createInterface(grouped.stdout).on('line', (name) => created.push(name))
  await until('the first game has started', () => created.length > 0)
  const interrupting = setInterval(() => process.kill(-(grouped.pid ?? 0), 'SIGINT'), 10)
  onCleanUp(() => clearInterval(interrupting))
  await until('all have started, or the host has ended', () => created.length === 6 || grouped.exitCode !== null)
  expect(created).toEqual(names)
})

test('a start without free descriptors is rejected as unavailable', async () => {
  const directory = freshDirectory()
  const host = fileURLToPath(new URL('host.ts', import.meta.url))
  const specs = Array.from({ length: 60 }, (_, i) => specOf(['sleep', '600'], { name: `arena-${i}`, ports: [] }))
  const program = [process.execPath, '--import', 'tsx', host, directory, JSON.stringify(specs)]
  // Each start keeps a descriptor open. The host of this test ends with the first start that fails.
  const limited = spawn('/bin/sh', ['-c', 'ulimit -n 64; exec "$@"', 'sh', ...program], {
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  onCleanUp(() => void limited.kill('SIGKILL'))
  const [created, failure] = await Promise.all([text(limited.stdout), text(limited.stderr)])
  expect(created).toMatch(/^arena-0\n/)
  expect(failure).toMatch(/FleetError: cannot start a process: .*EMFILE/)
  expect(failure).toContain("code: 'unavailable'")
})

test('a host killed at any moment neither loses a game nor starts one twice', async () => {
  const directory = freshDirectory()
  const starts = join(directory, 'starts')
  writeFileSync(starts, '')
  const specs = Array.from({ length: 40 }, (_, i) =>
    // Writes its name and process id in one write. A template's `$$` yields one `$`.
    specOf(['sh', '-c', `echo "arena-${i} $$$$" >>${starts}; exec sleep 600`], { name: `arena-${i}`, ports: [7777] }),
  )
  for (let round = 0; round < 4; round++) {
    const host = startHost(directory, specs, 4)
    // Kills the host at a different point of its work in each round.
    let printed = 0
    host.stdout?.on('data', (chunk) => (printed += String(chunk).split('\n').length - 1))
    await until('the host has created some games', () => printed >= 2 + round * 10)
    host.kill('SIGKILL')
    await once(host, 'exit')
  }
  const last = open(directory)
  const running = new Set((await last.list()).filter((one) => one.phase === 'running').map((one) => one.ref.name))
  await until('each game has printed its name', () => linesOf(starts).length >= running.size)
  const alive = linesOf(starts).filter(([, pid]) => runs(Number(pid)))
  expect(alive).toHaveLength(running.size)
  expect(new Set(alive.map(([name]) => name))).toEqual(running)
  const numbers = (await last.list()).flatMap((one) => one.ports.map((port) => port.public))
  expect(new Set(numbers).size).toBe(numbers.length)
  await Promise.all(specs.map((spec) => last.destroy(spec.ref, spec.uid, { graceMs: 0 })))
  expect(alive.filter(([, pid]) => runs(Number(pid)))).toEqual([])
})

test('a recorded exit never changes', async () => {
  const directory = freshDirectory()
  const first = open(directory)
  await first.create(gameOf('process.exit(3)'))
  const recorded = await exited(first)
  await first.close()
  expect(await onlyInstance(open(directory))).toEqual(recorded)
})

function linesOf(path: string): readonly (readonly string[])[] {
  return readFileSync(path, 'utf8')
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => line.split(' '))
}
