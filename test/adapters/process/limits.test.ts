/** Limits of a server as a whole, by cgroup. */
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, expect, test } from 'vitest'
import { limitsHere, processBackend, type ProcessBackendOptions } from '../../../adapters/process/index.js'
import { createFleet, memoryStore } from '../../../src/index.js'
import { virtualClock } from '../../../src/testing/index.js'
import { findMounts, killsByLimit, limitFiles } from '../../../adapters/process/isolation/cgroups.js'
import { testInCgroup } from './as-root.js'
import { abandoned } from './hosts.js'
import { outputOf, recordIn, shellGame } from './shell-games.js'
import {
  cleanUp,
  exited,
  freshDirectory,
  gameOf,
  idle,
  numberIn,
  onCleanUp,
  onlyInstance,
  open,
  runs,
  until,
} from './support.js'

afterEach(cleanUp)

const mebibyte = 2 ** 20
/** A game that takes memory until something ends it. */
const greedy = `const all = []; setInterval(() => all.push(Buffer.alloc(8 * ${mebibyte}, 1)), 1)`

/** The cgroups of the server's run. */
function cgroupsOf(directory: string): readonly string[] {
  const { nonce } = recordIn(directory)
  return findMounts(readFileSync('/proc/self/mountinfo', 'utf8'))
    .map(({ folder }) => join(folder, 'gamekeeper', nonce))
    .filter((folder) => existsSync(folder))
}

testInCgroup('a game that exceeds the memory limit of its template is ended, and its exit says so', async () => {
  const directory = freshDirectory()
  const backend = open(directory)
  expect(backend.capabilities.template).toBe('process-memory')
  const neighbour = gameOf(idle, { name: 'neighbour', memory: '200Mi' })
  await backend.create(neighbour)
  const spec = gameOf(greedy, { memory: '150Mi' })
  await backend.create(spec)
  const ended = await until('the greedy game has ended', async () =>
    (await backend.list()).find(({ ref, phase }) => ref.name === spec.ref.name && phase === 'exited'),
  )
  const reason = `out of memory: it exceeded its limit of ${150 * mebibyte} bytes; killed by SIGKILL`
  expect(ended).toMatchObject({ exitCode: 137, reason: expect.stringContaining(reason) })
  const [cgroup = ''] = cgroupsOf(directory)
  expect(existsSync(cgroup)).toBe(true)
  await backend.destroy(spec.ref, spec.uid, { graceMs: 0 })
  expect(existsSync(cgroup)).toBe(false)
  expect(await onlyInstance(backend)).toMatchObject({ ref: neighbour.ref, phase: 'running' })
})

testInCgroup(
  'the lower of the limits of the host and of the template holds, also after a restart of the host',
  async () => {
    const directory = freshDirectory()
    const pid = join(directory, 'pid')
    const write = `require('fs').writeFileSync(${JSON.stringify(pid)}, String(process.pid));`
    const go = JSON.stringify(`${pid}.go`)
    const code = `${write} setInterval(() => { if (require('fs').existsSync(${go})) { ${greedy} } }, 10)`
    const spec = gameOf(code, { memory: '4Gi' })
    await abandoned(directory, spec, pid, { limits: { memoryBytes: 150 * mebibyte } })
    const next = open(directory)
    expect(await onlyInstance(next)).toMatchObject({ phase: 'running' })
    writeFileSync(`${pid}.go`, '')
    expect(await exited(next)).toMatchObject({ reason: expect.stringContaining(`limit of ${150 * mebibyte} bytes`) })
  },
)

/** Loses a process to the memory limit, goes on until it is let go, and exits. */
const losing = (go: string) =>
  shellGame(`'${process.execPath}' -e '${greedy}'; echo done; until [ -e ${go} ]; do sleep 0.05; done; exit 3`)
const limited = { limits: { memoryBytes: 150 * mebibyte } }

testInCgroup('a game that exits soon after it has lost a process to the memory limit says so', async () => {
  const directory = freshDirectory()
  const backend = open(directory, limited)
  const go = join(directory, 'go')
  const spec = losing(go)
  await outputOf(backend, spec)
  writeFileSync(go, '')
  expect(await exited(backend)).toMatchObject({ exitCode: 3, reason: expect.stringContaining('out of memory') })
})

testInCgroup(
  'a game that exits long after it has lost a process to the memory limit blames nothing on it',
  async () => {
    const directory = freshDirectory()
    const clock = virtualClock()
    const backend = open(directory, { ...limited, clock })
    const go = join(directory, 'go')
    const spec = losing(go)
    await outputOf(backend, spec)
    await clock.advance(12_000)
    writeFileSync(go, '')
    const { exitCode, reason } = await exited(backend)
    expect([exitCode, reason]).toEqual([3, expect.not.stringContaining('out of memory')])
  },
)

const second = (local: string, limit = '1024') => ({ 'memory.events.local': local, 'memory.max': `${limit}\n` })
const first = { 'memory.oom_control': 'under_oom 0\noom_kill 1\n', 'memory.limit_in_bytes': '1024\n' }

test.each([
  ['v2: its limit', second('oom 1\noom_kill 2\n'), 2],
  ['v2: the machine is out of memory', second('oom 0\noom_kill 1\n'), 0],
  ['v2: a cgroup above', { ...second('oom 0\noom_kill 1\n'), 'memory.events': 'oom 1\noom_kill 1\n' }, 0],
  ['v2: the limit was reached without an end', second('oom 5\noom_kill 0\n'), 0],
  ['v2: before Linux 5.2', { 'memory.events': 'oom 1\noom_kill 1\n', 'memory.max': '1024\n' }, 1],
  ['v2: a limit of tasks only', second('oom 1\noom_kill 1\n', 'max'), 0],
  ['v2: the controller is off', {}, 0],
  ['v1: its limit', { ...first, 'memory.max_usage_in_bytes': '1020\n' }, 1],
  ['v1: with swap', { ...first, 'memory.max_usage_in_bytes': '500\n', 'memory.memsw.max_usage_in_bytes': '1024\n' }, 1],
  ['v1: the machine is out of memory', { ...first, 'memory.max_usage_in_bytes': '500\n' }, 0],
])(
  'the processes that a memory limit has ended are counted: %s',
  (_, files: Readonly<Record<string, string>>, ended) => {
    expect(killsByLimit((file) => files[file] ?? '')).toEqual(
      ended === 0 ? undefined : { kills: ended, limitBytes: 1024 },
    )
  },
)

testInCgroup('the fleet tells why such a server ended', async () => {
  const fleet = await createFleet({ backend: open(freshDirectory()), store: memoryStore(), agent: { port: 0 } })
  onCleanUp(() => fleet.close())
  const told: string[] = []
  fleet.on('*', ({ type, message }) => void (message.includes('out of memory') && told.push(type)))
  const { template } = gameOf(greedy, { memory: '150Mi' })
  const spec = { buildID: 'greedy', standingBy: 1, max: 1, portsToExpose: [], template }
  await fleet.builds.create({ metadata: { name: 'greedy' }, spec })
  expect(await until('the end is told', () => told[0])).toBe('ServerEnding')
  await fleet.drain({ deadlineMs: 0 })
})

testInCgroup('a game cannot start more tasks than its limit, and the host and its neighbours live on', async () => {
  const backend = open(freshDirectory(), { limits: { tasks: 40 } })
  const script = `(for i in $(seq 100); do sleep 600 & done) 2>&1 | grep -qi fork && echo limited; echo done; exec sleep 600`
  expect(await outputOf(backend, shellGame(script))).toContain('limited\ndone')
})

testInCgroup('processes in the cgroup end with their server, even if they cleared their environment', async () => {
  const directory = freshDirectory()
  const backend = open(directory, { limits: { tasks: 100 } })
  const path = join(directory, 'stray')
  const spec = shellGame(`setsid env -i /bin/sh -c 'echo $$ >${path}; exec sleep 600' & exec sleep 600`)
  await backend.create(spec)
  const stray = await numberIn(path)
  await backend.destroy(spec.ref, spec.uid, { graceMs: 0 })
  expect(runs(stray)).toBe(false)
})

testInCgroup('the limits that hold on this machine are told', async () => {
  expect(limitsHere()).toEqual({
    memory: expect.stringMatching(/^per server, by cgroup v[12]$/),
    pids: expect.stringMatching(/^per server, by cgroup v[12]$/),
  })
})

testInCgroup('the health of a fleet tells its isolation and the limits that hold', async () => {
  const statusOf = async (options: ProcessBackendOptions) => {
    const fleet = await createFleet({
      backend: open(freshDirectory(), options),
      store: memoryStore(),
      agent: { port: 0 },
    })
    onCleanUp(() => fleet.close())
    return (await fleet.health()).isolation
  }
  const memory = expect.stringMatching(/^per server, by cgroup v[12]$/)
  expect(await statusOf({})).toEqual({ mode: 'none', memory, pids: 'not limited' })
  const limited = { mode: 'none', memory, pids: expect.stringMatching(/^at most 40 per server, by cgroup v[12]$/) }
  expect(await statusOf({ limits: { tasks: 40 } })).toEqual(limited)
  const own = { mode: 'user', memory, pids: 'at most 4096 per server, by user' }
  expect(await statusOf({ isolation: 'user' })).toEqual(own)
})

testInCgroup('a template’s limit that is not a quantity is rejected, naming the field', async () => {
  const { template } = gameOf(idle, { memory: '400m' })
  expect(() => processBackend().check?.({ template, portsToExpose: [] })).toThrow(
    'spec.template.spec.containers[0].resources.limits.memory must be a quantity of bytes of at least 1Mi, but is "400m"',
  )
})

test('both versions of cgroups are found, and each has its files', () => {
  const mountinfo = `31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw
35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
41 31 0:38 / /sys/fs/cgroup\\040two rw shared:4 - cgroup2 cgroup2 rw,nsdelegate`
  expect(findMounts(mountinfo)).toEqual([
    { version: 1, folder: '/sys/fs/cgroup/memory', controllers: ['rw', 'memory'] },
    { version: 2, folder: '/sys/fs/cgroup two', controllers: [] },
  ])
  const limits = { memoryBytes: 1024, tasks: 5 }
  expect(limitFiles('memory', 2, limits).map(({ file, value }) => `${file}=${value}`)).toEqual([
    'memory.max=1024',
    'memory.swap.max=0',
    'memory.oom.group=1',
  ])
  expect(limitFiles('pids', 2, limits)).toEqual([{ file: 'pids.max', value: '5' }])
  expect(limitFiles('pids', 1, {})).toEqual([])
})
