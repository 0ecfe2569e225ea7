import { spawnSync } from 'node:child_process'
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, expect, test } from 'vitest'
import type { BackendListener, Instance } from '../../../src/contracts/backend.js'
import { cleanUp, contentOf, exited, freshDirectory, gameOf, idle, numberIn, onlyInstance, open } from './support.js'
import { runs, saysPid, specOf, until } from './support.js'

afterEach(cleanUp)

test('a created instance runs with an address, a node and public ports', async () => {
  const backend = open(freshDirectory(), { publicAddress: '127.0.0.9', node: 'here' })
  const spec = gameOf(idle, { ports: [7777, 7778] })
  const instance = await backend.create(spec)
  expect(instance).toMatchObject({ ref: spec.ref, uid: spec.uid, phase: 'running', address: '127.0.0.9', node: 'here' })
  expect(instance.ports.map((port) => port.container)).toEqual([7777, 7778])
  expect(new Set(instance.ports.map((port) => port.public)).size).toBe(2)
  expect(await onlyInstance(backend)).toEqual(instance)
})

test('the game gets its environment, directory, SDK configuration, and ports, but none of the host’s secrets', async () => {
  const directory = freshDirectory()
  process.env['AWS_SECRET_ACCESS_KEY'] = 'a secret of the host'
  const out = join(directory, 'out.json')
  const code = `require('fs').writeFileSync('out.json', JSON.stringify({ env: process.env, args: process.argv.slice(1),
    cwd: process.cwd(), config: JSON.parse(require('fs').readFileSync(process.env.GSDK_CONFIG_FILE, 'utf8')) }));${idle}`
  const backend = open(directory)
  const instance = await backend.create(
    gameOf(code, {
      ports: [7777, 7778],
      containerPorts: [{ name: 'game', containerPort: 7777 }],
      env: { MODE: 'duel', 'my.setting': 'odd', UID: '55', PF_TITLE_ID: 'ABC', TITLE: '$(PF_TITLE_ID)-$(PORT_7777)' },
      args: ['--', '--port=$(PORT_7777)', '$$(MODE)', '$(MODE)', '$(UNSET)', 'a b"c'],
      workingDir: directory,
    }),
  )
  delete process.env['AWS_SECRET_ACCESS_KEY']
  const output = await until('the game has printed its environment', () => {
    const text = contentOf(out)
    return text?.endsWith('}') === true && JSON.parse(text)
  })
  const [game, query] = instance.ports.map((port) => port.public)
  expect(output.cwd).toBe(directory)
  expect(output.args).toEqual([`--port=${game}`, '$(MODE)', 'duel', '$(UNSET)', 'a b"c'])
  expect(output.env).toMatchObject({
    MODE: 'duel',
    'my.setting': 'odd',
    UID: '55',
    TITLE: `ABC-${game}`,
    PATH: process.env['PATH'],
    PORT_7777: String(game),
    PORT_7778: String(query),
    PF_TITLE_ID: 'ABC',
    PF_BUILD_ID: 'build-id',
  })
  expect(output.env).not.toHaveProperty('AWS_SECRET_ACCESS_KEY')
  expect(output.config).toMatchObject({
    heartbeatEndpoint: '127.0.0.1:56001',
    sessionHostId: 'arena-aaaaa.secret',
    gamePorts: { game: String(game), port_7778: String(query) },
    gameServerConnectionInfo: {
      gamePortsConfiguration: [
        { name: 'game', serverListeningPort: game, clientConnectionPort: game },
        { name: 'port_7778', serverListeningPort: query, clientConnectionPort: query },
      ],
    },
  })
  for (const folder of ['logFolder', 'certificateFolder', 'sharedContentFolder']) {
    expect(statSync(output.config[folder]).isDirectory()).toBe(true)
  }
})

test('only this user can read a server’s files', async () => {
  const directory = freshDirectory()
  await open(directory).create(gameOf(idle))
  const instance = join(directory, 'instances', 'default.arena-aaaaa')
  expect(statSync(instance).mode & 0o777).toBe(0o700)
  for (const file of ['instance.json', 'gsdkConfig.json'])
    expect(statSync(join(instance, file)).mode & 0o777).toBe(0o600)
})

test('a game’s stdout and stderr go to its log, which is kept after the game exits', async () => {
  const directory = freshDirectory()
  const backend = open(directory)
  const spec = gameOf(`console.log('out'); console.error('err')`)
  await backend.create(spec)
  await exited(backend)
  await backend.destroy(spec.ref, spec.uid, { graceMs: 0 })
  expect(readFileSync(join(directory, 'logs', 'default.arena-aaaaa.log'), 'utf8')).toBe('out\nerr\n')
  expect(readdirSync(join(directory, 'instances'))).toEqual([])
})

test.each([
  ['exit code 0', 'process.exit(0)', 0],
  ['exit code 3', 'process.exit(3)', 3],
  ['SIGKILL sent to itself', 'process.kill(process.pid, "SIGKILL")', 137],
  ['SIGSEGV', 'process.kill(process.pid, "SIGSEGV")', 139],
])('an exit by %s is reported once, with its code', async (_, code, exitCode) => {
  const backend = open(freshDirectory())
  const changes: Instance[] = []
  backend.watch(listening({ changed: (instance) => void changes.push(instance) }))
  await backend.create(gameOf(code))
  await until('the exit is reported', () => changes.some((instance) => instance.phase === 'exited'))
  expect(changes.map((instance) => instance.phase)).toEqual(['running', 'exited'])
  expect(changes[1]).toMatchObject({ exitCode })
  expect(changes[1]?.reason).toContain('.log')
  expect(await onlyInstance(backend)).toMatchObject({ phase: 'exited', exitCode })
})

test('a game killed externally is reported with exit code 137, without polling', async () => {
  const directory = freshDirectory()
  const backend = open(directory, { pollIntervalMs: 600_000 })
  const changes: Instance[] = []
  backend.watch(listening({ changed: (instance) => void changes.push(instance) }))
  await backend.create(gameOf(saysPid(join(directory, 'pid')) + idle))
  process.kill(await numberIn(join(directory, 'pid')), 'SIGKILL')
  await until('the exit is reported', () => changes.length === 2)
  expect(changes[1]).toMatchObject({ phase: 'exited', exitCode: 137 })
})

test('a process group killed externally is reported with exit code 137', async () => {
  const directory = freshDirectory()
  const backend = open(directory)
  await backend.create(gameOf(saysPid(join(directory, 'pid')) + idle))
  await numberIn(join(directory, 'pid'))
  process.kill(-supervisorOf(directory), 'SIGKILL')
  expect(await exited(backend)).toMatchObject({ exitCode: 137 })
})

test('a game whose supervisor is killed keeps running and can be terminated', async () => {
  const directory = freshDirectory()
  const backend = open(directory)
  const spec = gameOf(saysPid(join(directory, 'pid')) + idle)
  await backend.create(spec)
  const pid = await numberIn(join(directory, 'pid'))
  const supervisor = supervisorOf(directory)
  process.kill(supervisor, 'SIGKILL')
  await until('the supervisor is gone', () => !runs(supervisor))
  expect(await onlyInstance(backend)).toMatchObject({ phase: 'running' })

  const next = open(directory)
  expect(await onlyInstance(next)).toMatchObject({ phase: 'running' })
  expect(runs(pid)).toBe(true)
  await next.destroy(spec.ref, spec.uid, { graceMs: 5_000 })
  expect(runs(pid)).toBe(false)
  expect(await next.list()).toEqual([])
})

test('a game that exits after its supervisor was killed is reported without an exit code', async () => {
  const directory = freshDirectory()
  const backend = open(directory)
  await backend.create(gameOf(`${saysPid(join(directory, 'pid'))}${idle}`))
  const pid = await numberIn(join(directory, 'pid'))
  await backend.close()
  const next = open(directory)
  await next.list()
  process.kill(supervisorOf(directory), 'SIGKILL')
  await until('it counts as running by its group', async () => {
    return (await onlyInstance(next)).phase === 'running' && !runs(supervisorOf(directory))
  })
  process.kill(pid, 'SIGKILL')
  const instance = await exited(next)
  expect(instance).not.toHaveProperty('exitCode')
  expect(instance.reason).toContain('supervisor was killed')
})

test.each([
  [['./nope'], 127, /^no such command: \.\/nope \(searched \/.*\)$/],
  [['no-such-command-anywhere'], 127, /^no such command: no-such-command-anywhere \(searched PATH/],
  [['./plain.txt'], 126, /plain\.txt is not executable$/],
  [['./'], 126, /is a directory$/],
])(
  'create with command %j returns an instance that exited with code %i and a reason, and that holds no ports',
  async (command, exitCode, reason) => {
    const directory = freshDirectory()
    writeFileSync(join(directory, 'plain.txt'), 'no program')
    const backend = open(directory)
    const instance = await backend.create(specOf(command, { workingDir: directory, ports: [7777] }))
    expect(instance).toMatchObject({ phase: 'exited', exitCode, reason: expect.stringMatching(reason), ports: [] })
    expect(await onlyInstance(backend)).toEqual(instance)
    expect(await onlyInstance(open(directory))).toEqual(instance)
    await backend.destroy(instance.ref, instance.uid, { graceMs: 0 })
    expect(await backend.list()).toEqual([])
  },
)

test('a missing working directory is reported as the reason', async () => {
  const instance = await open(freshDirectory()).create(gameOf(idle, { workingDir: '/no/such/place' }))
  expect(instance).toMatchObject({
    phase: 'exited',
    exitCode: 127,
    reason: 'no such working directory: /no/such/place',
  })
})

test('a command line that the system rejects is reported as the reason', async () => {
  const instance = await open(freshDirectory()).create(specOf(['true', 'x'.repeat(3_000_000)]))
  expect(instance).toMatchObject({ phase: 'exited', exitCode: 126, reason: expect.stringContaining('E2BIG') })
})

test('creating the same spec again, in sequence or concurrently, returns the same instance', async () => {
  const directory = freshDirectory()
  const backend = open(directory)
  const spec = gameOf(`require('fs').appendFileSync(${JSON.stringify(join(directory, 'starts'))}, 'x');${idle}`, {
    ports: [1],
  })
  const [first, second] = await Promise.all([backend.create(spec), backend.create(spec)])
  expect(second).toEqual(first)
  expect(await backend.create(spec)).toEqual(first)
  await until('the game has started', () => contentOf(join(directory, 'starts'))?.startsWith('x'))
  expect(contentOf(join(directory, 'starts'))).toBe('x')
  expect(await backend.list()).toHaveLength(1)
})

test('create rejects with conflict while an earlier instance with the same name exists', async () => {
  const backend = open(freshDirectory())
  const spec = gameOf(idle)
  await backend.create(spec)
  const next = gameOf(idle, { uid: 'another' })
  await expect(backend.create(next)).rejects.toMatchObject({ code: 'conflict', retryable: true })
  await backend.destroy(spec.ref, 'another', { graceMs: 0 })
  expect(await onlyInstance(backend)).toMatchObject({ uid: spec.uid, phase: 'running' })
  await backend.destroy(spec.ref, spec.uid, { graceMs: 0 })
  expect(await backend.create(next)).toMatchObject({ uid: 'another', phase: 'running' })
})

test('names that would escape the directory are rejected', async () => {
  const spec = gameOf(idle)
  const ref = { namespace: '..', name: '../../etc' }
  await expect(open(freshDirectory()).create({ ...spec, ref })).rejects.toMatchObject({ code: 'invalid' })
})

test('an unusable directory is rejected with its path', async () => {
  const file = join(freshDirectory(), 'file')
  writeFileSync(file, '')
  const backend = open(join(file, 'below'))
  const refusal = { code: 'directory-unusable', message: expect.stringContaining(join(file, 'below')) }
  await expect(backend.create(gameOf(idle))).rejects.toMatchObject(refusal)
  await expect(backend.list()).rejects.toMatchObject(refusal)
})

test('a call whose signal is aborted does nothing', async () => {
  const backend = open(freshDirectory())
  const signal = AbortSignal.abort()
  const aborted = { code: 'aborted' }
  await expect(backend.create(gameOf(idle), { signal })).rejects.toMatchObject(aborted)
  await expect(backend.list({ signal })).rejects.toMatchObject(aborted)
  expect(await backend.list()).toEqual([])
})

test('fleets with different directories do not see each other', async () => {
  const [one, other] = [open(freshDirectory()), open(freshDirectory())]
  const spec = gameOf(idle)
  await one.create(spec)
  expect(await other.list()).toEqual([])
  await other.destroy(spec.ref, spec.uid, { graceMs: 0 })
  expect(await onlyInstance(one)).toMatchObject({ phase: 'running' })
})

test('after close, listeners get nothing, calls reject, and the game keeps running', async () => {
  const directory = freshDirectory()
  const backend = open(directory)
  const events: string[] = []
  await backend.create(gameOf(saysPid(join(directory, 'pid')) + idle))
  backend.watch(
    listening({
      changed: () => void events.push('changed'),
      gone: () => void events.push('gone'),
      resync: () => void events.push('resync'),
    }),
  )
  await until('the watch has begun', () => events.includes('resync'))
  const pid = await numberIn(join(directory, 'pid'))
  await backend.close()
  events.length = 0
  expect(runs(pid)).toBe(true)
  process.kill(pid, 'SIGKILL')
  await exited(open(directory))
  expect(events).toEqual([])
  const closed = { code: 'closed' }
  await expect(backend.create(gameOf(idle))).rejects.toMatchObject(closed)
  await expect(backend.list()).rejects.toMatchObject(closed)
  await expect(backend.destroy(gameOf(idle).ref, 'x', { graceMs: 0 })).rejects.toMatchObject(closed)
})

test('a listener that throws affects neither other listeners nor the backend', async () => {
  const backend = open(freshDirectory())
  const events: string[] = []
  const breaks = () => {
    throw new Error('of the listener')
  }
  backend.watch(listening({ changed: breaks, resync: breaks }))
  const stop = backend.watch(listening({ changed: (instance) => void events.push(instance.phase) }))
  await backend.create(gameOf('process.exit(0)'))
  await until('the exit is reported', () => events.includes('exited'))
  stop()
  await backend.destroy(gameOf('').ref, 'uid-of-arena-aaaaa', { graceMs: 0 })
  expect(events).toEqual(['running', 'exited'])
})

test('servers leave neither zombies nor open files in the host', async () => {
  const backend = open(freshDirectory())
  const openFiles = () => readdirSync('/dev/fd').length
  const round = async (count: number) => {
    const specs = Array.from({ length: count }, (_, i) => specOf(['sleep', '600'], { name: `arena-${i}`, ports: [1] }))
    await Promise.all(specs.map((spec) => backend.create(spec)))
    await Promise.all(specs.map((spec) => backend.destroy(spec.ref, spec.uid, { graceMs: 60_000 })))
  }
  await round(1)
  const before = openFiles()
  await round(10)
  await until('the files are closed', () => openFiles() <= before)
  const children = spawnSync('ps', ['-A', '-o', 'ppid=,stat='], { encoding: 'utf8' }).stdout.split('\n')
  expect(children.filter((line) => new RegExp(`^\\s*${process.pid}\\s+Z`).test(line))).toEqual([])
})

function listening(parts: Partial<BackendListener>): BackendListener {
  return {
    changed: () => {},
    gone: () => {},
    resync: () => {},
    heartbeat: () => ({ operation: 'Continue', nextHeartbeatIntervalMs: 1_000 }),
    ...parts,
  }
}

function supervisorOf(directory: string): number {
  const record = JSON.parse(readFileSync(join(directory, 'instances', 'default.arena-aaaaa', 'instance.json'), 'utf8'))
  return record.process.pid
}
