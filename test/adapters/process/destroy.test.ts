import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, expect, test } from 'vitest'
import { cleanUp, contentOf, freshDirectory, gameOf, idle, numberIn, onlyInstance, open } from './support.js'
import { runs, saysPid, specOf, until } from './support.js'

afterEach(cleanUp)

/** A game that ignores SIGTERM once it has written its pid. */
const stubborn = (path: string) => `process.on('SIGTERM', () => {});${saysPid(path)}${idle}`

test('a game that exits on SIGTERM within its grace period is not killed, whatever its exit code', async () => {
  const directory = freshDirectory()
  const backend = open(directory)
  const [pid, farewell] = [join(directory, 'pid'), join(directory, 'farewell')]
  const spec = gameOf(
    `process.on('SIGTERM', () => setTimeout(() => { require('fs').writeFileSync(${JSON.stringify(farewell)}, 'bye');
     process.exit(9) }, 200));${saysPid(pid)}${idle}`,
  )
  await backend.create(spec)
  const running = await numberIn(pid)
  const gone: string[] = []
  backend.watch({
    changed: () => {},
    gone: (ref, uid) => void gone.push(`${ref.name} ${uid}`),
    resync: () => {},
    heartbeat: () => ({ operation: 'Continue', nextHeartbeatIntervalMs: 1_000 }),
  })
  await backend.destroy(spec.ref, spec.uid, { graceMs: 10_000 })
  expect(contentOf(farewell)).toBe('bye')
  expect(runs(running)).toBe(false)
  expect(gone).toEqual([`${spec.ref.name} ${spec.uid}`])
  expect(await backend.list()).toEqual([])
  expect(readdirSync(join(directory, 'instances'))).toEqual([])
})

test('a game that ignores SIGTERM is killed after its grace period', async () => {
  const directory = freshDirectory()
  const backend = open(directory)
  const spec = gameOf(stubborn(join(directory, 'pid')))
  await backend.create(spec)
  const pid = await numberIn(join(directory, 'pid'))
  const before = performance.now()
  await backend.destroy(spec.ref, spec.uid, { graceMs: 300 })
  expect(performance.now() - before).toBeGreaterThanOrEqual(295)
  expect(runs(pid)).toBe(false)
})

test('a game that has just started exits on SIGTERM, within its grace period', async () => {
  const backend = open(freshDirectory())
  for (let round = 0; round < 5; round++) {
    const specs = Array.from({ length: 8 }, (_, i) => specOf(['sleep', '600'], { name: `arena-${i}` }))
    await Promise.all(specs.map((spec) => backend.create(spec)))
    // Longer than the test's timeout.
    await Promise.all(specs.map((spec) => backend.destroy(spec.ref, spec.uid, { graceMs: 600_000 })))
  }
})

test('SIGKILL reaches children and grandchildren, including orphaned ones', async () => {
  const directory = freshDirectory()
  const backend = open(directory)
  const grandchild = join(directory, 'grandchild')
  // `$$$$`, since a template's `$$` yields one `$`.
  const spec = specOf(['sh', '-c', `trap '' TERM; (sh -c 'echo $$$$ >${grandchild}; sleep 600'; true); true`])
  await backend.create(spec)
  const pid = await numberIn(grandchild)
  await backend.destroy(spec.ref, spec.uid, { graceMs: 100 })
  expect(runs(pid)).toBe(false)
})

test('processes that a game leaves behind are killed when it exits', async () => {
  const directory = freshDirectory()
  const backend = open(directory)
  await backend.create(specOf(['sh', '-c', `sleep 600 & echo $! >${join(directory, 'pid')}; exit 4`]))
  const pid = await numberIn(join(directory, 'pid'))
  await until('the leftover is gone', () => !runs(pid))
  expect(await until('exited', async () => (await onlyInstance(backend)).exitCode)).toBe(4)
})

test('a game started by a shell that exits on SIGTERM still gets its grace period', async () => {
  const directory = freshDirectory()
  const backend = open(directory)
  const farewell = join(directory, 'farewell')
  const code = `process.on('SIGTERM', () => setTimeout(() => { require('fs').writeFileSync(${JSON.stringify(farewell)}, 'bye');
    process.exit() }, 300));${saysPid(join(directory, 'pid'))}${idle}`
  const spec = specOf(['sh', '-c', '"$0" -e "$1"; exit 5', process.execPath, code])
  await backend.create(spec)
  const pid = await numberIn(join(directory, 'pid'))
  await backend.destroy(spec.ref, spec.uid, { graceMs: 10_000 })
  expect(contentOf(farewell)).toBe('bye')
  expect(runs(pid)).toBe(false)
})

test('concurrent calls share one termination, with the shortest grace period among them', async () => {
  const directory = freshDirectory()
  const backend = open(directory)
  const spec = gameOf(stubborn(join(directory, 'pid')))
  await backend.create(spec)
  await numberIn(join(directory, 'pid'))
  // Longer than the test's timeout.
  const patient = [600_000, 300_000].map((graceMs) => backend.destroy(spec.ref, spec.uid, { graceMs }))
  await backend.destroy(spec.ref, spec.uid, { graceMs: 100 })
  await Promise.all(patient)
  await backend.destroy(spec.ref, spec.uid, { graceMs: 100 })
})

test('aborting a call does not stop the termination', async () => {
  const directory = freshDirectory()
  const backend = open(directory)
  const spec = gameOf(stubborn(join(directory, 'pid')))
  await backend.create(spec)
  const pid = await numberIn(join(directory, 'pid'))
  const caller = new AbortController()
  const call = backend.destroy(spec.ref, spec.uid, { graceMs: 300, signal: caller.signal })
  await backend.list()
  caller.abort()
  await expect(call).rejects.toMatchObject({ code: 'aborted' })
  await until('the game is gone', () => !runs(pid))
  await until('the instance is gone', async () => (await backend.list()).length === 0)
})

test('an instance that is still being created is terminated', async () => {
  const directory = freshDirectory()
  const backend = open(directory)
  await backend.list()
  const spec = gameOf(saysPid(join(directory, 'pid')) + idle)
  const created = backend.create(spec)
  await until('its creation has begun', async () => (await backend.list()).length === 1)
  await backend.destroy(spec.ref, spec.uid, { graceMs: 0 })
  await created
  expect(await backend.list()).toEqual([])
  expect(readdirSync(join(directory, 'instances'))).toEqual([])
})

test('destroying an absent instance succeeds', async () => {
  const backend = open(freshDirectory())
  await backend.destroy({ namespace: 'default', name: 'absent' }, 'absent', { graceMs: 1_000 })
})

test('closing the backend during a termination rejects the call and leaves the game running', async () => {
  const directory = freshDirectory()
  const backend = open(directory)
  const spec = gameOf(stubborn(join(directory, 'pid')))
  await backend.create(spec)
  const pid = await numberIn(join(directory, 'pid'))
  const ended = expect(backend.destroy(spec.ref, spec.uid, { graceMs: 60_000 })).rejects.toMatchObject({
    code: 'closed',
  })
  await until('the end has begun', async () => (await backend.list()).length === 1)
  await backend.close()
  await ended
  expect(runs(pid)).toBe(true)
})
