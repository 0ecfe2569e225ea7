/** The project that `gamekeeper init` writes, from the packed package: its host app, its image, and its compose file. */
import { execFile, spawn, spawnSync } from 'node:child_process'
import { readFile, writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { beforeEach, expect, it, onTestFinished } from 'vitest'
import { type Describe, describeOnEngine, leaveOut } from '../adapters/docker/describe-on-engine.js'
import { baseImage } from '../adapters/docker/engine.js'
import { copyWithDependencies, pack, unpack } from '../package/consumer.js'
import { spawnInTerminal, watch } from './host.js'
import { until } from './until.js'
import { type Workplace, workplace } from './workplace.js'

const exec = promisify(execFile)
const limitMs = 400_000

let place: Workplace
let project = ''

beforeEach(async () => {
  place = await workplace('arena/.gamekeeper')
  await unpack(await pack(place.root), place.root)
  await copyWithDependencies(place.root, ['croner', 'eventemitter3', 'lmdb', 'commander', 'yaml'])
  const program = join(place.root, 'node_modules/gamekeeper/dist/src/cli/main.js')
  await exec(process.execPath, [program, 'init', 'arena'], { cwd: place.root })
  project = join(place.root, 'arena')
}, limitMs)

/** Starts a match through the host app, and returns the first words of its game. */
async function play(url: string): Promise<string> {
  const match = await until('the host app starts a match', async () => {
    const response = await fetch(`${url}/matches`, { method: 'POST' }).catch(() => undefined)
    return response?.ok === true
      ? ((await response.json()) as { readonly address: string; readonly port: number })
      : undefined
  })
  const player = connect(match.port, match.address)
  const words = await new Promise<Buffer>((resolve, reject) => player.once('data', resolve).once('error', reject))
  player.destroy()
  return words.toString()
}

const runHost = [process.execPath, 'arena/host.mjs'] as const
const hostOptions = () => ({ cwd: place.root, env: { ...process.env, PORT: '30450' } })

it('has a host app that starts matches, and ends its games on Ctrl-C', { timeout: limitMs }, async () => {
  const host = watch(spawnInTerminal(runHost, hostOptions()))
  expect(await play('http://127.0.0.1:30450')).toMatch(/^welcome/)
  host.pressCtrlC()
  expect(await host.exit()).toEqual({ code: 0, signal: null })
  expect(host.stdout()).not.toMatch(/error/i)
  expect(await place.running()).toEqual([])
})

it(
  'has a host app that leaves its games running on a SIGINT without a terminal, until SIGQUIT',
  { timeout: limitMs },
  async () => {
    const [command, ...args] = runHost
    const first = watch(spawn(command, args, hostOptions()))
    expect(await play('http://127.0.0.1:30450')).toMatch(/^welcome/)
    expect(await first.exit('SIGINT')).toEqual({ code: 0, signal: null })
    expect(first.stderr()).toBe('')
    expect(await place.running()).not.toEqual([])

    const next = watch(spawn(command, args, hostOptions()))
    await until(
      'the next host app serves',
      () => next.stdout().includes('starts a match') || next.process.exitCode !== null,
    )
    expect(await next.exit('SIGQUIT')).toEqual({ code: 0, signal: null })
    expect(await place.running()).toEqual([])
  },
)

it('has a build that runs on other machines: without paths of this one', async () => {
  const fleet: { readonly build: object } = await import(pathToFileURL(join(project, 'fleet.mjs')).href)
  expect(fleet.build).toMatchObject({ spec: { run: { command: ['node', 'game.mjs'] } } })
})

const [program, first] =
  spawnSync('docker', ['compose', 'version']).status === 0
    ? (['docker', ['compose']] as const)
    : (['docker-compose', []] as const)
const hasCompose = spawnSync(program, [...first, 'version']).status === 0
const describeWithCompose: Describe = hasCompose ? describeOnEngine : leaveOut('Docker Compose is not installed')

describeWithCompose('the project that init writes', () => {
  it('runs as an image with Compose, and stops in its time', { timeout: limitMs }, async () => {
    const name = `gamekeeper-starter-${process.pid}`
    const base = `${name}-base`
    // No registry is needed: the packages are above the project, in an image in place of the one of Node, which has the user `node`.
    await writeFile(
      join(place.root, 'Dockerfile'),
      `FROM ${baseImage}\nRUN id node || useradd node\nCOPY node_modules /node_modules\n`,
    )
    await writeFile(join(place.root, '.dockerignore'), '*\n!node_modules\n')
    await exec('docker', ['build', '-t', base, '.'], { cwd: place.root })
    const [manifest, dockerfile] = [join(project, 'package.json'), join(project, 'Dockerfile')]
    const { dependencies, ...rest } = JSON.parse(await readFile(manifest, 'utf8'))
    expect(Object.keys(dependencies)).toEqual(['gamekeeper'])
    await writeFile(manifest, JSON.stringify(rest))
    await writeFile(dockerfile, (await readFile(dockerfile, 'utf8')).replace(/^FROM .*$/m, `FROM ${base}`))

    const compose = (...args: readonly string[]) => exec(program, [...first, '-p', name, ...args], { cwd: project })
    onTestFinished(async () => {
      await compose('down', '--rmi', 'all', '--volumes')
      await exec('docker', ['rmi', base])
    }, limitMs)
    await compose('up', '--build', '--detach')
    expect(await play('http://127.0.0.1:3000')).toMatch(/^welcome/)
    await compose('stop')
    const { stdout: id } = await compose('ps', '--quiet', '--all')
    const { stdout: code } = await exec('docker', ['inspect', '--format', '{{.State.ExitCode}}', id.trim()])
    expect(code.trim()).toBe('0')
  })
})
