/** Tests of an app, under the test runners that apps use, with the packed package: a unit test in memory, and a match as a process. */
import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, realpath, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { copyWithDependencies, pack, unpack } from './consumer.js'
import { root } from './sources.js'

const exec = promisify(execFile)

/** `body` of two tests, which throw if they fail. */
const tests = `
const game = \`import('gamekeeper/sdk').then(async ({ start }) => {
  const gsdk = await start()
  gsdk.onTerminate(() => process.exit(0))
  await gsdk.readyForPlayers()
})\`

async function unitTest() {
  const clock = virtualClock()
  const fleet = await createFleet({ backend: memoryBackend({ clock }), clock })
  await fleet.builds.create({ metadata: { name: 'arena' }, spec: { buildID: 'arena', standingBy: 1, max: 1, run: { command: ['game'] } } })
  const { SessionID } = await clock.run(fleet.allocate({ buildID: 'arena', sessionID: 'first' }, { waitMs: 60_000 }))
  await fleet.close()
  if (SessionID !== 'first') throw new Error(SessionID)
}

async function match() {
  const backend = processBackend({ directory: process.env.DATA })
  const fleet = await createFleet({ backend, agent: { port: 0 }, logger: false })
  try {
    const run = { command: [process.execPath, '-e', game] }
    await fleet.builds.create({ metadata: { name: 'arena' }, spec: { buildID: 'arena', standingBy: 1, max: 1, run } })
    const { SessionID } = await fleet.allocate({ buildID: 'arena', sessionID: 'first' }, { waitMs: 60_000 })
    if (SessionID !== 'first') throw new Error(SessionID)
    const refused = await fleet.builds.get('other').then(() => 'found', (error) => error.code)
    if (refused !== 'not-found') throw new Error(refused)
  } finally {
    await fleet.drain({ active: 'terminate' })
    await fleet.close()
  }
}
`
const names = {
  gamekeeper: 'createFleet',
  'gamekeeper/memory': 'memoryBackend',
  'gamekeeper/process': 'processBackend',
  'gamekeeper/testing': 'virtualClock',
}
const imports = Object.entries(names).map(([from, name]) => `import { ${name} } from '${from}'`)
const requires = Object.entries(names).map(([from, name]) => `const { ${name} } = require('${from}')`)

const limitMs = 400_000
const calls = `test('a unit test', unitTest, ${limitMs})\ntest('a match', match, ${limitMs})\n`
const calledByNode = `test('a unit test', unitTest)\ntest('a match', match)\n`
const files = {
  'jest/fleet.test.cjs': [...requires, tests, calls],
  'vitest/fleet.test.mjs': [`import { test } from 'vitest'`, ...imports, tests, calls],
  'node/fleet.test.mjs': [`import { test } from 'node:test'`, ...imports, tests, calledByNode],
}

let folder = ''

beforeAll(async () => {
  folder = await realpath(await mkdtemp(join(tmpdir(), 'gamekeeper-runners-')))
  await unpack(await pack(folder), folder)
  await copyWithDependencies(folder, ['croner', 'eventemitter3', 'lmdb'])
  for (const [name, lines] of Object.entries(files)) {
    await mkdir(join(folder, name, '..'), { recursive: true })
    await writeFile(join(folder, name), lines.join('\n'))
  }
}, limitMs)
afterAll(() => rm(folder, { recursive: true, force: true }))

const tool = (path: string) => join(root, 'node_modules', path)

it.each([
  [
    'jest',
    [tool('jest/bin/jest.js'), '--config', '{"rootDir":"jest","testMatch":["**/*.test.cjs"]}'],
    /Tests: +2 passed, 2 total/,
  ],
  ['vitest', [tool('vitest/vitest.mjs'), 'run', '--root', 'vitest'], /Tests +2 passed \(2\)/],
  ['node', ['--test', 'node/fleet.test.mjs'], /pass 2\n/],
])(
  'a fleet works under %s',
  async (name, command, passed) => {
    // Without those by which the runner of this test tells its own processes.
    const own = Object.entries(process.env).filter(
      ([variable]) => !/^(VITEST|JEST|NODE_TEST|FORCE_COLOR)/.test(variable),
    )
    const env = { ...Object.fromEntries(own), DATA: join(folder, 'data', name), NO_COLOR: '1' }
    const { stdout, stderr } = await exec(process.execPath, command, { cwd: folder, env })
    expect(stdout + stderr).toMatch(passed)
  },
  limitMs,
)
