/** Which open files of its host a game has: none. The host has an open file store, whose descriptor LMDB leaves inheritable. */
import { spawn, spawnSync } from 'node:child_process'
import { openSync, readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { afterEach, expect, test } from 'vitest'
import { processBackend, type ProcessBackendOptions } from '../../../adapters/process/index.js'
import { createFleet } from '../../../src/index.js'
import { ownDescriptors } from '../../../src/platform/own-descriptors.js'
import { filesUnder, read, root } from '../../package/sources.js'
import { testAsRoot } from './as-root.js'
import { cleanUp, contentOf, freshDirectory, onCleanUp, until } from './support.js'

afterEach(cleanUp)

/** Prints where each descriptor of the game leads. */
const listing =
  'for fd in /proc/$$/fd/*; do [ ! -L $fd ] || { printf "${fd##*/} "; readlink $fd; }; done; echo done; exec sleep 600'
/** A template's `$$` yields one `$`. */
const command = ['/bin/sh', '-c', listing.replaceAll('$', () => '$$')]
const build = {
  metadata: { name: 'arena' },
  spec: { buildID: 'a', standingBy: 1, max: 1, run: { command } },
}

/** What the game has printed, without the names that differ from run to run. */
async function descriptorsIn(directory: string): Promise<readonly string[]> {
  const logs = join(directory, 'logs')
  const printed = await until('the game has printed its descriptors', () => {
    const [name] = readdirSync(logs, { withFileTypes: true }).map((entry) => entry.name)
    const text = name === undefined ? undefined : contentOf(join(logs, name))
    return text?.endsWith('done\n') === true && text
  })
  return printed
    .replaceAll(/\/\S*\.log$/gm, 'its log')
    .replaceAll(/\/\S*\/stdin$/gm, 'its input')
    .trim()
    .split('\n')
}

const given = ['0 /dev/null', '1 its log', '2 its log', 'done']

/** Descriptors of this process that its children inherit unless something closes them. */
function inheritable(): readonly string[] {
  return readdirSync('/proc/self/fd').filter((fd) => {
    const flags = /^flags:\t(\d+)$/m.exec(contentOf(`/proc/self/fdinfo/${fd}`) ?? '')?.[1]
    return Number(fd) > 2 && flags !== undefined && (Number.parseInt(flags, 8) & 0o2000000) === 0
  })
}

async function inFleet(options: ProcessBackendOptions, stdin = false): Promise<void> {
  const directory = freshDirectory()
  const server = createServer().listen(0, '127.0.0.1')
  onCleanUp(() => void server.close())
  const fleet = await createFleet({ backend: processBackend({ directory, ...options }), agent: { port: 0 } })
  onCleanUp(() => fleet.close())
  expect(inheritable().map((fd) => readlinkSync(`/proc/self/fd/${fd}`))).toContain(join(directory, 'store', 'data.mdb'))
  await fleet.builds.create({ ...build, spec: { ...build.spec, run: { command, stdin } } })
  expect(await descriptorsIn(directory)).toEqual(stdin ? ['0 its input', ...given.slice(1)] : given)
}

test('a game of createFleet has its own descriptors only', () => inFleet({}))
test('a game with stdin: true has its own descriptors only', () => inFleet({}, true))
testAsRoot('a game of createFleet with a user of its own has its own descriptors only', () =>
  inFleet({ isolation: 'user' }),
)

/** The bundled server, or another command, which itself inherits descriptors from its parent: one below 10, and one above. */
async function inServer(args: readonly string[], env: Readonly<Record<string, string>>, data: string) {
  const directory = freshDirectory()
  const file = openSync(join(root, 'package.json'), 'r')
  const stdio = [
    'ignore',
    'pipe',
    'pipe',
    ...Array.from({ length: 60 }, (_, fd) => (fd === 40 ? file : 'ignore')),
  ] as const
  const ports = { ALLOCATION_PORT: '0', MANAGEMENT_PORT: '0', AGENT_PORT: '0', PORT_RANGE: '30900-30919' }
  const host = spawn(process.execPath, [join(root, 'dist/src/cli/main.js'), ...args], {
    cwd: directory,
    env: { PATH: process.env['PATH'], HOME: directory, DATA_DIR: directory, ...ports, ...env },
    stdio: [...stdio],
  })
  onCleanUp(() => void host.kill('SIGKILL'))
  let printed = ''
  host.stdout?.setEncoding('utf8').on('data', (part: string) => (printed += part))
  const management = await until(
    'the host listens',
    () => /http:[^" ,]+(?=[", ])/.exec(/management\W+(.*)/.exec(printed)?.[1] ?? '')?.[0],
  )
  if (args[0] === 'serve') {
    const url = `${management}/api/v1/gameserverbuilds`
    await fetch(url, { method: 'POST', body: JSON.stringify(build) })
  }
  expect(await until('the game runs', () => descriptorsIn(join(directory, data)).catch(() => undefined))).toEqual(given)
}

const server = { BACKEND: 'process', SAMPLE: 'off' }

test('a game of the bundled server has its own descriptors only', () => inServer(['serve'], server, ''))
testAsRoot('a game of the bundled server with ISOLATION=user has its own descriptors only', () =>
  inServer(['serve'], { ...server, ISOLATION: 'user' }, ''),
)
test('a game of gamekeeper dev has its own descriptors only', () => inServer(['dev', ...command], {}, 'dev'))

test('a program that the host starts has the descriptors that it is given, and no others', () => {
  const file = openSync(join(root, 'package.json'), 'r')
  const list = ['-c', 'for fd in /proc/$$/fd/*; do [ ! -L $fd ] || echo "${fd##*/}"; done; cat <&3 >&2', 'sh'] as const
  const lists = (given: number) => {
    const [program, args] = ownDescriptors('/bin/sh', list, given)
    const stdio = ['ignore', 'pipe', 'pipe', ...Array.from({ length: 70 }, () => file)] as const
    return spawnSync(program, args, { stdio: [...stdio], encoding: 'utf8' })
  }
  expect(lists(4)).toMatchObject({ stdout: '0\n1\n2\n3\n', stderr: readFileSync(join(root, 'package.json'), 'utf8') })
  expect(lists(3).stdout).toBe('0\n1\n2\n')
})

test('every program that the sources start is started without the host’s descriptors', () => {
  const starts = filesUnder('src', 'adapters')
    .filter((file) => file.endsWith('.ts') && file !== 'src/platform/own-descriptors.ts')
    .filter((file) => read(file).includes(`'node:child_process'`))
    .flatMap(
      (file) => read(file).match(/(?<![.\w])(?:spawn|spawnSync|exec(?:File)?(?:Sync)?|fork)\)?\([^)]{0,30}/g) ?? [],
    )
  expect(starts.length).toBeGreaterThan(8)
  expect(starts.filter((call) => !call.includes('(...ownDescriptors('))).toEqual([])
})
