/** `gamekeeper dev` and `gamekeeper init` as processes, with real game servers. */
import { execFile } from 'node:child_process'
import { readdir, readFile, symlink, writeFile, mkdir } from 'node:fs/promises'
import { connect } from 'node:net'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { describe, expect, it } from 'vitest'
import { until } from '../e2e/until.js'
import { copyWithDependencies, pack, unpack } from '../package/consumer.js'
import { root } from '../package/sources.js'
import { cli, emptyDirectory, startCli } from './cli.js'

const exec = promisify(execFile)
const limitMs = 400_000

/** Free ports, and a range that no other test uses. */
function settings(portRange: string): Readonly<Record<string, string>> {
  return { ALLOCATION_PORT: '0', MANAGEMENT_PORT: '0', PORT_RANGE: portRange }
}

/** Processes whose environment names this directory, such as games and their supervisors. */
async function processesOf(directory: string): Promise<readonly string[]> {
  const { stdout } = await exec('ps', ['-eo', 'pid,args'])
  return stdout.split('\n').filter((line) => line.includes(directory) && !line.includes('ps -eo'))
}

describe('gamekeeper dev', () => {
  it(
    'runs the sample game, allocates a match, shows what the games print, and ends everything on Ctrl-C',
    { timeout: limitMs },
    async () => {
      const cwd = await emptyDirectory()
      const dev = startCli(['dev'], { cwd, env: settings('30100-30119') })
      const [, session, address, port] = await dev.untilPrinted(/match ([\w-]+) is on ([\d.]+):(\d+)/)
      await dev.untilPrinted(new RegExp(`\\[dev-\\w+\\] session ${session} begins, expecting amie, bob`))
      const player = connect(Number(port), address)
      player.write('hello amie\n')
      const [answer] = await new Promise<[Buffer]>((resolve) => player.once('data', (data: Buffer) => resolve([data])))
      expect(answer.toString()).toMatch(new RegExp(`^session ${session} `))
      player.destroy()
      dev.write('\n')
      await dev.untilPrinted(/(match .*[^]*){2}/)
      const [, management] = await dev.untilPrinted(/dashboard and management API (http:\S+),/)
      expect((await fetch(`${management}/healthz`)).status).toBe(200)
      dev.signal('SIGINT')
      expect(await dev.exit()).toMatchObject({ code: 0, stderr: '' })
      // The agent answers until the games have ended.
      expect(dev.stdout()).not.toContain('ECONNREFUSED')
      await until('no game is left', async () => (await processesOf(join(cwd, '.gamekeeper'))).length === 0)
    },
  )

  it('says why a game does not start, and runs it once it can', { timeout: limitMs }, async () => {
    const cwd = await emptyDirectory()
    const game = join(cwd, 'game.mjs')
    await writeFile(game, `console.log('no map'); process.exit(3)`)
    const dev = startCli(['dev', '--json', 'node', 'game.mjs'], { cwd, env: settings('30120-30139') })
    const lines = () =>
      dev
        .stdout()
        .split('\n')
        .slice(0, -1)
        .map((line): { type: string; message?: string; line?: string } => JSON.parse(line))
    await until('the crash is told', () => lines().some(({ message }) => message?.includes('exited with code 3')))
    await until('the output is shown', () => lines().some(({ type, line }) => type === 'output' && line === 'no map'))
    await mkdir(join(cwd, 'node_modules'))
    await symlink(root, join(cwd, 'node_modules/gamekeeper'))
    await writeFile(game, await readFile(join(root, 'examples/starter/game.mjs')))
    await until('a match is allocated', () => lines().some(({ type }) => type === 'allocated'))
    dev.signal('SIGTERM')
    expect(await dev.exit()).toMatchObject({ code: 0, stderr: '' })
    await until('all have gone', async () => (await processesOf(join(cwd, '.gamekeeper'))).length === 0)
  })

  it('refuses fewer servers at most than it keeps ready', async () => {
    const dev = startCli(['dev', '--standing-by', '3', '--max', '1'], {
      cwd: await emptyDirectory(),
      env: settings('30180-30198'),
    })
    expect(await dev.exit()).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('--max must be at least --standing-by (3), but is 1'),
    })
  })

  it.each([
    ['AGENT_PORT, if it is set', { AGENT_PORT: '30199' }, /127\.0\.0\.1:30199 /],
    ['a free port by default, so that several may run at once', {}, /127\.0\.0\.1:(?!56001 )[1-9]\d+ /],
  ])('listens for heartbeats on %s', { timeout: limitMs }, async (_, own, endpoint) => {
    const cwd = await emptyDirectory()
    const game = `
      const config = JSON.parse(require('node:fs').readFileSync(process.env.GSDK_CONFIG_FILE, 'utf8'))
      const { heartbeatEndpoint, sessionHostId } = config
      fetch('http://' + heartbeatEndpoint + '/v1/sessionHosts/' + sessionHostId, {
        method: 'PATCH', body: JSON.stringify({ currentGameState: 'Initializing', currentGameHealth: 'Healthy' }),
      }).then(async (answer) => console.log('heard at', heartbeatEndpoint, (await answer.json()).operation))
      setInterval(() => {}, 1_000)`
    const dev = startCli(['dev', 'node', '-e', game], { cwd, env: { ...settings('30180-30198'), ...own } })
    const [line] = await dev.untilPrinted(/heard at .*/)
    expect(line).toMatch(endpoint)
    expect(line).toMatch(/ Continue$/)
    dev.signal('SIGINT')
    expect((await dev.exit()).code).toBe(0)
  })

  it('ends the games of an earlier run that was killed', { timeout: limitMs }, async () => {
    const cwd = await emptyDirectory()
    const first = startCli(['dev'], { cwd, env: settings('30140-30159') })
    await first.untilPrinted(/match \S+ is on/)
    first.signal('SIGKILL')
    await first.exit()
    const left = await readdir(join(cwd, '.gamekeeper/dev/instances'))
    expect(left.length).toBeGreaterThan(0)
    const next = startCli(['dev'], { cwd, env: settings('30140-30159') })
    await next.untilPrinted(/match \S+ is on/)
    const now = await readdir(join(cwd, '.gamekeeper/dev/instances'))
    expect(now.filter((name) => left.includes(name))).toEqual([])
    next.signal('SIGINT')
    expect((await next.exit()).code).toBe(0)
  })
})

describe('gamekeeper init', () => {
  it('writes a project whose test passes and whose game runs', { timeout: limitMs }, async () => {
    const cwd = await emptyDirectory()
    const { code, stdout } = await cli(['init', 'arena', '--json'], { cwd })
    expect(code).toBe(0)
    const project = join(cwd, 'arena')
    const files = await readdir(project)
    expect(files.toSorted()).toEqual(JSON.parse(stdout).files.toSorted())
    expect(files).toEqual(
      expect.arrayContaining(['package.json', 'game.mjs', 'host.mjs', 'game.test.mjs', 'Dockerfile', 'compose.yaml']),
    )
    const manifest: { readonly name: string } = JSON.parse(await readFile(join(project, 'package.json'), 'utf8'))
    expect(manifest).toMatchObject({ name: 'arena', scripts: { test: 'node --test' } })

    // What `npm install` would do.
    await mkdir(join(project, 'node_modules'))
    await symlink(root, join(project, 'node_modules/gamekeeper'))
    await exec(process.execPath, ['--test'], { cwd: project })
    const dev = startCli(['dev', 'node', 'game.mjs'], { cwd: project, env: settings('30160-30179') })
    const [, address, port] = await dev.untilPrinted(/match \S+ is on ([\d.]+):(\d+)/)
    const player = connect(Number(port), address)
    const said = await new Promise<Buffer>((resolve) => player.once('data', resolve))
    expect(said.toString()).toContain('welcome')
    player.destroy()
    await dev.untilPrinted(/exited with code 0/)
    dev.signal('SIGINT')
    expect((await dev.exit()).code).toBe(0)
  })

  it('depends on the file that the package was installed from, if it was one', { timeout: limitMs }, async () => {
    const cwd = await emptyDirectory()
    await unpack(await pack(cwd), cwd)
    await copyWithDependencies(cwd, ['croner', 'eventemitter3', 'lmdb', 'commander', 'yaml'])
    const packages = { 'node_modules/gamekeeper': { resolved: 'file:../packed/gamekeeper-1.0.0.tgz' } }
    await writeFile(join(cwd, 'node_modules/.package-lock.json'), JSON.stringify({ packages }))
    const program = join(cwd, 'node_modules/gamekeeper/dist/src/cli/main.js')
    await exec(process.execPath, [program, 'init', 'arena'], { cwd })
    const manifest: unknown = JSON.parse(await readFile(join(cwd, 'arena/package.json'), 'utf8'))
    expect(manifest).toMatchObject({ dependencies: { gamekeeper: 'file:../../packed/gamekeeper-1.0.0.tgz' } })
  })

  it('overwrites nothing, and keeps an existing package.json', async () => {
    const cwd = await emptyDirectory()
    await writeFile(join(cwd, 'package.json'), '{}')
    expect(await cli(['init'], { cwd })).toMatchObject({ code: 0, stderr: '' })
    expect(await readFile(join(cwd, 'package.json'), 'utf8')).toBe('{}')
    await writeFile(join(cwd, 'game.mjs'), 'mine')
    const { code, stderr } = await cli(['init'], { cwd })
    expect([code, stderr]).toEqual([1, expect.stringContaining('game.mjs')])
    expect(stderr).toContain('init overwrites nothing')
    expect(await readFile(join(cwd, 'game.mjs'), 'utf8')).toBe('mine')
  })
})
