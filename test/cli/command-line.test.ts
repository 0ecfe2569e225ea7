/** The command line itself: help, mistakes, completion, the configuration file. */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { call } from '../http/client.js'
import { hasColours, shownOn } from '../../src/cli/terminal.js'
import { cli, emptyDirectory, startCli } from './cli.js'

const free = { ALLOCATION_PORT: '0', MANAGEMENT_PORT: '0', BACKEND: 'memory', SAMPLE: 'off' }

describe('help and mistakes', () => {
  it('prints its version, and the help of itself and of each command', async () => {
    expect(await cli(['--version'])).toEqual({
      code: 0,
      stdout: expect.stringMatching(/^\d+\.\d+\.\d+\n$/),
      stderr: '',
    })
    const help = await cli(['--help'])
    expect(help).toMatchObject({ code: 0, stderr: '' })
    const commands = [...help.stdout.matchAll(/^ {2}([a-z]+) .*/gm)].map(([, name = '']) => name)
    expect(commands).toEqual(expect.arrayContaining(['dev', 'init', 'serve', 'completion']))
    const own = await Promise.all(commands.map((name) => cli([name, '--help'])))
    expect(own.map(({ code, stdout }) => [code, stdout.startsWith('Usage: gamekeeper ')])).toEqual(
      commands.map(() => [0, true]),
    )
  })

  it.each([
    [['sreve'], "gamekeeper: unknown command 'sreve'; did you mean serve?"],
    [
      ['serve', '--alocation-port', '1'],
      "gamekeeper: unknown option '--alocation-port'; did you mean --allocation-port?",
    ],
    [['serve', '--host'], "gamekeeper: option '--host <text>' argument missing"],
    [['serve', 'now'], "gamekeeper: too many arguments for 'serve'. Expected 0 arguments but got 1."],
    [
      ['dev', '--port', '70000'],
      "gamekeeper: option '-p, --port <number>' argument '70000' is invalid. It must be a whole number from 1 to 65535.",
    ],
  ])('answers %j with exit code 2 and one line', async (args, line) => {
    expect(await cli(args)).toEqual({ code: 2, stdout: '', stderr: `${line}\n` })
  })

  it('answers a mistake as JSON with --json', async () => {
    const { code, stderr } = await cli(['serve', '--json', '--hots', 'x'])
    expect([code, JSON.parse(stderr)]).toEqual([
      2,
      { code: 'usage', error: "unknown option '--hots'; did you mean --host?" },
    ])
  })

  it('without a command prints its help on stderr, with exit code 2', async () => {
    const { code, stdout, stderr } = await cli([])
    expect([code, stdout, stderr.split('\n')[0]]).toEqual([2, '', 'Usage: gamekeeper [options] [command]'])
  })

  it('shows control characters as escapes on a terminal, except for colours, and leaves what is piped alone', () => {
    const hostile = 'a\u001b]52;c;ZXZpbA==\u0007b\r\u009b2Jc\td\n'
    expect(shownOn(true)(hostile)).toBe('a\\u001b]52;c;ZXZpbA==\\u0007b\\u000d\\u009b2Jc\td\n')
    expect(shownOn(true)('\u001b[31mred\u001b[39m')).toBe('\u001b[31mred\u001b[39m')
    expect(shownOn(false)(hostile)).toBe(hostile)
  })

  it.each([
    [{}, true, true],
    [{}, false, false],
    [{ NO_COLOR: '1' }, true, false],
    [{ NO_COLOR: '1', FORCE_COLOR: '1' }, true, false],
    [{ FORCE_COLOR: '1' }, false, true],
    [{ TERM: 'dumb' }, true, false],
  ])('with %j, on a terminal: %s, colours: %s', (env, isTerminal, colours) => {
    expect(hasColours(env, isTerminal)).toBe(colours)
  })
})

describe('completion', () => {
  it.each([
    [['s'], ['serve']],
    [
      ['completion', ''],
      ['bash', 'zsh', 'fish'],
    ],
    [
      ['serve', '--tls-c'],
      ['--tls-cert', '--tls-client-ca'],
    ],
    [['dev', '--standing-by', '3', '--m'], ['--max']],
  ])('of %j offers %j', async (words, expected) => {
    const { stdout } = await cli(['complete', '--', ...words])
    expect(
      stdout
        .trim()
        .split('\n')
        .filter((one) => expected.includes(one)),
    ).toEqual(expected)
    expect(
      stdout
        .trim()
        .split('\n')
        .every((one) => one.startsWith(words.at(-1) ?? '')),
    ).toBe(true)
  })
})

describe('settings', () => {
  it(
    'come from flags before the environment, and from the environment before the file',
    { timeout: 300_000 },
    async () => {
      const cwd = await emptyDirectory()
      const file = { dataDir: 'file', apiGroup: 'file.example.com', logLevel: 'error', sample: false, region: 'file' }
      await writeFile(join(cwd, 'gamekeeper.config.json'), JSON.stringify(file))
      const env = { ...free, AGENT_PORT: '0', BACKEND: 'process', API_GROUP: 'env.example.com', LOG_LEVEL: 'warn' }
      const server = startCli(['serve', '--log-level', 'info'], { cwd, env })
      const [, management] = await server.untilPrinted(/"management":"([^"]+)"/)
      const spec = {
        buildID: 'a',
        standingBy: 0,
        max: 0,
        portsToExpose: [],
        template: { spec: { containers: [{ name: 'a', command: ['true'] }] } },
      }
      const created = await call('POST', `${management}/api/v1/gameserverbuilds`, {
        body: { metadata: { name: 'a' }, spec },
      })
      expect(JSON.parse(created.text)).toMatchObject({ apiVersion: 'env.example.com/v1alpha1' })
      server.signal('SIGTERM')
      const { code, stdout } = await server.exit()
      // The final line is at level info.
      expect([code, stdout]).toEqual([0, expect.stringContaining('exiting on SIGTERM')])
    },
  )

  it.each([
    [
      '.json',
      '{ "alocationPort": 6000 }',
      'gamekeeper.config.json: unknown option alocationPort; did you mean allocationPort?',
    ],
    ['.json', '{ "allocationPort": "6000" }', 'gamekeeper.config.json: allocationPort must be a number, but is "6000"'],
    [
      '.json',
      '{ "backend": "proces" }',
      'gamekeeper.config.json: backend must be one of process, docker, kubernetes, memory, but is "proces"',
    ],
    ['.json', '{ "client": { "uri": "x" } }', 'gamekeeper.config.json: client: unknown option uri; did you mean url?'],
    [
      '.json',
      '{ "allocationPort": 70000 }',
      'allocationPort in gamekeeper.config.json must be a port from 0 to 65535, but is "70000"',
    ],
    ['.json', '{', /^gamekeeper.config.json cannot be read as JSON: /],
    ['.mjs', 'export const config = {}', 'gamekeeper.config.mjs has no default export: write export default { … }'],
    ['.mjs', 'throw new Error("no luck")', 'gamekeeper.config.mjs cannot be loaded: no luck'],
  ])('in gamekeeper.config%s with %s are refused', async (extension, text, message) => {
    const cwd = await emptyDirectory()
    await writeFile(join(cwd, `gamekeeper.config${extension}`), text)
    const { code, stdout, stderr } = await cli(['serve'], { cwd, env: { BACKEND: 'memory' } })
    expect([code, stdout]).toEqual([1, ''])
    const said = stderr.replace(/^gamekeeper: /, '').trimEnd()
    if (message instanceof RegExp) expect(said).toMatch(message)
    else expect(said).toBe(message)
  })

  it('in two files, or in a file that does not exist, are refused', async () => {
    const cwd = await emptyDirectory()
    for (const name of ['gamekeeper.config.mjs', 'gamekeeper.config.json']) await writeFile(join(cwd, name), '{}')
    expect((await cli(['serve'], { cwd })).stderr).toBe(
      'gamekeeper: found gamekeeper.config.mjs and gamekeeper.config.json: keep one, or name one with --config\n',
    )
    expect((await cli(['serve', '--config', 'other.json'], { cwd })).stderr).toBe(
      'gamekeeper: --config: there is no file other.json\n',
    )
  })

  it('of a flag are named by the flag', async () => {
    const { code, stderr } = await cli(['serve', '--agent-port', 'x'])
    expect([code, stderr]).toEqual([2, 'gamekeeper: --agent-port must be a port from 0 to 65535, but is "x"\n'])
  })
})
