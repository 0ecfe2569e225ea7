/** Commands that run beside a game: in its place, as its user and within its limits, until their time is up. */
import { readdirSync } from 'node:fs'
import { afterEach, expect, test } from 'vitest'
import type { ProcessBackendOptions } from '../../../adapters/process/index.js'
import type { Backend, ExecOptions, ExecResult } from '../../../src/contracts/backend.js'
import { testAsRoot, testInCgroup } from './as-root.js'
import { startHost } from './hosts.js'
import { place, recordIn, shellGame } from './shell-games.js'
import { cleanUp, contentOf, exited, freshDirectory, open, until } from './support.js'

afterEach(cleanUp)

const ref = { namespace: 'default', name: 'arena-aaaaa' }

async function run(backend: Backend, script: string, options?: ExecOptions): Promise<ExecResult> {
  if (!backend.exec) throw new Error('the backend runs no commands')
  return backend.exec(ref, ['sh', '-c', script, 'sh', 'a b', '$(PORT_1)', '"'], options)
}

/** Commands can be run once the game has its user. */
const runs = (backend: Backend, script: string) =>
  until('a command can be run', () => run(backend, script).catch(() => undefined))

/** True while a process of this machine has this text among its arguments. */
const isRunning = (text: string) =>
  readdirSync('/proc').some((pid) => (contentOf(`/proc/${pid}/cmdline`) ?? '').includes(text))

const env = { MAP: 'dust II', 'my.setting': "it's kept", EMPTY: '' }

/** What a command of a later host finds, which is what the game has found. */
async function sharedPlace(options: ProcessBackendOptions, memory?: string): Promise<string> {
  const directory = freshDirectory()
  const spec = shellGame(`${place}; echo done; exec sleep 600`, { env, ...(memory !== undefined && { memory }) })
  const host = startHost(directory, [spec], 1, options)
  const log = () => contentOf(`${directory}/logs/default.arena-aaaaa.log`) ?? ''
  await until('the game runs', () => log().endsWith('done\n') && recordIn(directory).process)
  host.kill('SIGKILL')
  const { exitCode, output } = await run(open(directory, options), `${place}; echo done`)
  expect({ exitCode, output }).toEqual({ exitCode: 0, output: log() })
  return output
}

test('a command finds the variables, folder and limits of its game, also from a later host', async () => {
  await sharedPlace({})
})

testAsRoot('a command has the user of its game, no privileges, and a view without other processes', async () => {
  const output = await sharedPlace({ isolation: 'user', limits: { openFiles: 200 } })
  expect(output).toMatch(/^2\d{9}\n2\d{9}\n/)
  expect(output).toMatch(/\n200\n[^]*CapEff:\t0+\nCapBnd:\t0+\nNoNewPrivs:\t1\n[^]*\nalone\n/)
})

testAsRoot('a command runs as the user that the host gives all games', async () => {
  expect(await sharedPlace({ runAs: { user: 12_345, group: 12_346 } })).toMatch(/^12345\n12346\n/)
})

testInCgroup('a command shares the memory limit of its game', async () => {
  await sharedPlace({}, '100Mi')
  const backend = open(freshDirectory())
  await backend.create(shellGame('exec sleep 600', { memory: '60Mi' }))
  const { exitCode } = await runs(backend, 'head -c 200m /dev/zero | tail -c 150m | wc -c; exit 7')
  expect([7, 137]).toContain(exitCode)
})

test('a command gets its arguments as they are, its input, and nothing of the host', async () => {
  const backend = open(freshDirectory())
  await backend.create(shellGame('exec sleep 600'))
  const words = await runs(backend, 'printf "%s|" "$@"; cat; ls /proc/self/fd | wc -l')
  expect(words).toEqual({ exitCode: 0, output: 'a b|$(PORT_1)|"|4\n' })
  const big = 'x'.repeat(300_000)
  expect(await run(backend, 'cat | wc -c; exit 3', { input: big })).toEqual({ exitCode: 3, output: '300000\n' })
  // It does not read its input.
  expect(await run(backend, 'exit 4', { input: big })).toMatchObject({ exitCode: 4 })
  expect(await run(backend, 'kill -9 $$')).toMatchObject({ exitCode: 137 })
  await expect(backend.exec?.(ref, ['no-such-program'])).resolves.toMatchObject({ exitCode: 127 })
})

test('of a command that prints without an end, only the end is kept, and it is ended', async () => {
  const backend = open(freshDirectory())
  await backend.create(shellGame('exec sleep 600'))
  const { output } = await runs(backend, 'seq 100000; echo the end')
  expect(output).toMatch(/99999\n100000\nthe end\n$/)
  expect(output.length).toBeLessThanOrEqual(512)
  await expect(run(backend, 'yes endless-output')).rejects.toMatchObject({
    code: 'invalid',
    message: 'it has printed more than 1 MiB',
  })
  await until('it is gone', () => !isRunning('endless-output'))
})

test('a command that hangs is ended with its children, and one that leaves a child behind is not waited for', async () => {
  const backend = open(freshDirectory())
  await backend.create(shellGame('exec sleep 600'))
  await runs(backend, ':')
  const stop = new AbortController()
  const hangs = run(backend, 'sleep 6001 & sleep 6002', { signal: stop.signal })
  await until('it runs', () => isRunning('6001') && isRunning('6002'))
  stop.abort()
  await expect(hangs).rejects.toMatchObject({ code: 'aborted' })
  await until('it is gone', () => !isRunning('6001') && !isRunning('6002'))
  expect(await run(backend, 'sleep 6003 & echo left')).toEqual({ exitCode: 0, output: 'left\n' })
  expect(isRunning('6003')).toBe(true)
  await backend.destroy(ref, 'uid-of-arena-aaaaa', { graceMs: 1_000 })
  expect(isRunning('6003')).toBe(false)
})

test('a command ends with the backend, and none runs without its game', async () => {
  const directory = freshDirectory()
  const backend = open(directory)
  const notFound = { code: 'not-found' }
  await expect(run(backend, ':')).rejects.toMatchObject(notFound)
  await backend.create(shellGame('until [ -e "$PF_SHARED_CONTENT_FOLDER/end" ]; do sleep 0.05; done'))
  await runs(backend, ':')
  const hangs = run(backend, 'sleep 6004')
  await until('it runs', () => isRunning('6004'))
  await backend.close()
  await expect(hangs).rejects.toMatchObject({ code: 'aborted' })
  await until('it is gone', () => !isRunning('6004'))
  const second = open(directory)
  await run(second, ': >"$PF_SHARED_CONTENT_FOLDER/end"')
  await exited(second)
  await expect(run(second, ':')).rejects.toMatchObject(notFound)
})
