/** Each command that talks to a server, as a process, against one real server with real game servers on processes. */
import { mkdtemp, realpath, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { stripVTControlCharacters } from 'node:util'
import type { GameServer } from 'gamekeeper'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { until } from '../e2e/until.js'
import { root } from '../package/sources.js'
import { cli, type CliResult, launchCli, type RunningCli, startCli } from './cli.js'

const tokens = { manage: 'm'.repeat(20), read: 'r'.repeat(20), allocate: 'a'.repeat(20) }
const game = join(root, 'examples/game-server/server.mjs')
const buildYaml = `
metadata:
  name: arena
spec:
  buildID: arena-1
  standingBy: 1
  max: 3
  portsToExpose: [7777]
  template:
    spec:
      terminationGracePeriodSeconds: 1
      containers:
        - name: game
          command: [${JSON.stringify(process.execPath)}, ${JSON.stringify(game)}]
          ports: [{ name: game, containerPort: 7777 }]
`

let server: RunningCli
let cwd = ''
let env: Readonly<Record<string, string>> = {}

beforeAll(async () => {
  cwd = await realpath(await mkdtemp(join(tmpdir(), 'gamekeeper-cli-')))
  await writeFile(join(cwd, 'build.yaml'), buildYaml)
  await writeFile(join(cwd, 'utf16.yaml'), buildYaml, 'utf16le')
  await writeFile(join(cwd, 'token'), tokens.manage)
  await start()
  await ok(['apply', '-f', 'build.yaml'])
}, 300_000)

async function start(): Promise<void> {
  const ports = {
    ALLOCATION_PORT: '0',
    MANAGEMENT_PORT: '0',
    AGENT_PORT: '0',
    PORT_RANGE: '30200-30239',
    SAMPLE: 'off',
  }
  const roles = {
    MANAGE_TOKENS: tokens.manage,
    READ_TOKENS: `${tokens.read},${tokens.manage}`,
    ALLOCATE_TOKENS: `${tokens.allocate},${tokens.manage}`,
  }
  server = launchCli(['serve'], { cwd, env: { ...ports, ...roles } })
  const [, allocation = '', management = ''] = await server.untilPrinted(
    /"allocation":"([^"]+)","management":"([^"]+)"/,
  )
  env = { GAMEKEEPER_URL: management, GAMEKEEPER_ALLOCATION_URL: allocation, GAMEKEEPER_TOKEN: tokens.manage }
}

afterAll(async () => {
  await cli(['drain', 'fleet', '--terminate', '--deadline', '10'], { cwd, env })
  server.signal('SIGTERM')
  await server.exit()
  await rm(cwd, { recursive: true, force: true })
}, 300_000)

function run(args: readonly string[], more: Readonly<Record<string, string>> = {}, input?: string): Promise<CliResult> {
  return cli(args, { cwd, env: { ...env, ...more }, ...(input !== undefined && { input }) })
}

/** Runs a command that must succeed. */
async function ok(args: readonly string[], input?: string): Promise<string> {
  const { code, stdout, stderr } = await run(args, {}, input)
  expect({ args, code, stderr }).toEqual({ args, code: 0, stderr: expect.any(String) })
  return stdout
}

async function okJson(args: readonly string[], input?: string) {
  return JSON.parse(await ok([...args, '--json'], input))
}

function standingBy(build: string): Promise<string> {
  return until(`a server of ${build} is standing by`, async () => {
    const headers = { Authorization: `Bearer ${tokens.manage}` }
    const answer = await fetch(`${env['GAMEKEEPER_URL']}/api/v1/gameservers`, { headers })
    const servers = (await answer.json()) as readonly GameServer[]
    const ready = servers.filter(({ status }) => status.state === 'StandingBy')
    return ready.find(({ metadata }) => metadata.name.startsWith(`${build}-`))?.metadata.name
  })
}

describe('demand', () => {
  it('prints a recording that simulate reads, and says if there is no such build', async () => {
    const recording = await ok(['demand', 'arena'])
    expect(JSON.parse(recording)).toMatchObject({
      build: { namespace: 'default', name: 'arena' },
      days: expect.any(Array),
    })
    expect(await run(['demand', 'none'])).toMatchObject({ code: 5, stderr: expect.stringContaining('none') })
  })
})

describe('apply', () => {
  it('creates, updates and leaves builds, from a file or stdin, and prints which', { timeout: 300_000 }, async () => {
    const own = buildYaml.replaceAll('arena', 'duel').replace('standingBy: 1', 'standingBy: 0')
    expect(await ok(['apply', '-f', '-'], own)).toBe('build duel created\n')
    const more = own.replace('max: 3', 'max: 4')
    const [updated] = await okJson(['apply', '-f', '-'], more)
    expect(updated).toMatchObject({ result: 'updated', build: { metadata: { name: 'duel' }, spec: { max: 4 } } })
    expect(await ok(['apply', '-f', 'build.yaml'])).toBe('build arena unchanged\n')
    expect(await ok(['apply', '-f', '-'], `${buildYaml}---${more}`)).toBe(
      'build arena unchanged\nbuild duel unchanged\n',
    )
    expect(await ok(['delete', 'build', 'duel'])).toBe('build duel deleted\n')
  })

  it('takes what other programs print: comments alone, lists, merge keys, a byte order mark, and its own output', async () => {
    const unchanged = 'build arena unchanged\n'
    expect(await ok(['apply', '-f', '-'], `---\n# Source: fleet/templates/none.yaml\n---${buildYaml}---\n`)).toBe(
      unchanged,
    )
    const item = buildYaml.trimEnd().replaceAll('\n', '\n    ').replace('\n    ', '\n  - ')
    expect(await ok(['apply', '-f', '-'], `apiVersion: v1\nkind: List\nitems:${item}\n`)).toBe(unchanged)
    const merged = buildYaml.replace(
      'spec:\n  buildID',
      'base: &base { standingBy: 1, max: 3 }\nspec:\n  <<: *base\n  buildID',
    )
    expect(await ok(['apply', '-f', '-'], merged.replace(/ {2}standingBy: 1\n {2}max: 3\n/, ''))).toBe(unchanged)
    expect(await ok(['apply', '-f', '-'], `\uFEFF${buildYaml}`)).toBe(unchanged)
    expect(await ok(['apply', '-f', '-'], await ok(['get', 'builds', '--json']))).toBe(unchanged)
  })

  it.each([
    ['no.yaml', '', /^gamekeeper: no.yaml cannot be read: ENOENT/],
    ['-', `a: 1\nb: ${'['.repeat(20_000)}`, /^gamekeeper: line 2 of stdin is nested deeper than 100 levels$/],
    ['-', `a: ${'{b: '.repeat(20_000)}`, /^gamekeeper: line 1 of stdin is nested deeper than 100 levels$/],
    ['-', '- '.repeat(20_000), /^gamekeeper: line 1 of stdin is nested too deeply: it is indented by \d+ columns$/],
    [
      '-',
      Array.from({ length: 1_000 }, (_, i) => `${' '.repeat(i)}a:`).join('\n'),
      /nested too deeply: it is indented by 401 columns$/,
    ],
    ['-', `a: "${'x'.repeat(10_000)}`, /^gamekeeper: stdin is neither YAML nor JSON: .{1,150}$/],
    [
      '-',
      `a: &a [1]\nb: &b [${'*a,'.repeat(99)}]\nc: [${'*b,'.repeat(99)}]`,
      /^gamekeeper: stdin cannot be read: .*alias.*$/,
    ],
    ['-', 'metadata: [', /^gamekeeper: stdin is neither YAML nor JSON: /],
    ['-', 'kind: Pod', /^gamekeeper: stdin is not a build: it must have metadata and spec$/],
    ['-', '', /^gamekeeper: stdin has no builds: it is empty, or all comments$/],
    ['-', '---\n# nothing is enabled\n', /^gamekeeper: stdin has no builds: it is empty, or all comments$/],
    ['utf16.yaml', '', /^gamekeeper: utf16.yaml is UTF-16, as > of Windows PowerShell writes it; save it as UTF-8/],
    ['-', 'kind: List\nitems: [{ kind: Pod, metadata: {}, spec: {} }]', /^gamekeeper: item 1 of stdin has kind Pod/],
    [
      '-',
      'metadata: { name: a }\nspec: { standby: 1, max: x }',
      /spec.standby is not allowed.*; also spec.max must be/,
    ],
    ['-', buildYaml.replace('standingBy: 1', 'standingBy: x'), /^gamekeeper: .*standingBy/],
  ])('of %s with %j fails with one line', async (file, input, message) => {
    const { code, stdout, stderr } = await run(['apply', '-f', file], {}, input)
    // A file that is not there was typed wrong.
    expect([code, stdout]).toEqual([file === 'no.yaml' ? 2 : 1, ''])
    expect(stderr.trimEnd()).toMatch(message)
    expect(stderr.trimEnd().split('\n')).toHaveLength(1)
  })
})

describe('a match', () => {
  it('is allocated, listed, explained, logged and ended', { timeout: 240_000 }, async () => {
    const server = await standingBy('arena')
    const session = 'b3a1c8d2-0000-4000-8000-000000000001'
    const allocate = [
      'allocate',
      'arena-1',
      '--session',
      session,
      '--player',
      'amie',
      'bob',
      '--wait',
      '30',
      '--confirm',
    ]
    const printed = await ok(allocate)
    expect(printed).toMatch(
      new RegExp(`^session ${session} is on server default/arena-\\w+ at 127.0.0.1:\\d+ \\(game, TCP\\)\n$`),
    )
    const repeated = await okJson(['allocate', 'arena-1', '--session', session])
    expect(repeated).toMatchObject({ server: { namespace: 'default' }, address: '127.0.0.1' })
    expect(repeated.ports).toMatchObject([{ name: 'game', container: 7777, public: expect.any(Number) }])
    const [sessions, all] = [await ok(['get', 'sessions']), await ok(['get', 'servers'])]
    expect(sessions).toMatch(/^SESSION +NAMESPACE +SERVER +STATE +ADDRESS +PORTS +PLAYERS +FREE SEATS +AGE\n/)
    expect(sessions).toMatch(new RegExp(`\n${session} +default +arena-\\w+ +Active +127.0.0.1 +7777:\\d+ `))
    for (const args of [['--build', 'arena'], ['--player', 'amie'], []]) {
      const listed = await okJson(['get', 'sessions', ...args])
      expect(listed).toMatchObject([{ sessionID: session, buildID: 'arena-1', initialPlayers: ['amie', 'bob'] }])
    }
    const holder = (await okJson(['get', 'sessions', session]))[0].server.name
    // As in every other place, GUIDs are compared without regard to case.
    expect((await okJson(['get', 'sessions', session.toUpperCase()]))[0].server.name).toBe(holder)
    expect(all).toMatch(new RegExp(`${holder} +Active +Healthy`))
    expect(await ok(['get', 'builds'])).toMatch(/\ndefault +arena +arena-1 +\d\/1 +1 /)
    const explanation = await ok(['explain', holder])
    expect(explanation).toMatch(new RegExp(`^${holder} is Active, health Healthy\n[^]*allocated`))
    expect(explanation).toMatch(
      new RegExp(
        `\nLast lines of its log:\n[^]*  session ${session} begins.*\nNext: gamekeeper get session ${session}\n$`,
      ),
    )
    expect(await okJson(['get', 'server', holder])).toEqual(await okJson(['get', 'servers', holder]))
    expect((await okJson(['get', 'session', session.slice(0, 6)]))[0].sessionID).toBe(session)
    expect((await okJson(['explain', holder])).server.status.sessionID).toBe(session)
    expect(await ok(['logs', holder, '--tail', '1'])).toContain(`session ${session} begins, expecting amie, bob`)

    expect(await ok(['logs', '--session', session.slice(0, 6), '--tail', '1'])).toContain(`session ${session} begins`)
    const follow = startCli(['logs', '-f', holder], { cwd, env })
    await follow.untilPrinted(/begins, expecting amie, bob/)
    const ending = startCli(['get', 'sessions', '--watch', '--json'], { cwd, env })
    await ending.untilPrinted(new RegExp(session))
    expect(await okJson(['delete', 'server', holder])).toEqual({ kind: 'server', namespace: 'default', name: holder })
    expect((await follow.exit()).code).toBe(0)
    expect(follow.stdout()).toContain('goodbye')
    ending.signal('SIGINT')
    expect(await ending.exit()).toMatchObject({ code: 0, stderr: '' })
    // Also after the match.
    expect(await ok(['logs', '--session', session])).toContain('goodbye')
    const explained = await ok(['explain', holder])
    expect(explained.split('\n')[0]).toMatch(new RegExp(`^${holder} (has ended|is Terminating)`))
    expect(server).toMatch(/^arena-/)
  })

  it('is allocated on a reserved server that is named', { timeout: 240_000 }, async () => {
    const name = await standingBy('arena')
    const session = 'b3a1c8d2-0000-4000-8000-000000000003'
    expect(await ok(['reserve', name, '--for', '600'])).toContain(`server ${name} is reserved until`)
    expect(await ok(['allocate', '--server', name, '--session', session])).toContain(`is on server default/${name} at`)
    expect((await okJson(['get', 'sessions', session]))[0].server.name).toBe(name)
    expect(await ok(['end', session.slice(0, 8)])).toBe(`session ${session} ended\n`)
    await until('its game has ended it', async () => (await okJson(['get', 'session', session]))[0].state === 'Ended')
    expect(await ok(['end', session])).toBe(`session ${session} was over already\n`)
  })

  it('is not allocated on a reserved server until that is released', { timeout: 240_000 }, async () => {
    const name = await standingBy('arena')
    await ok(['reserve', name, '--for', '600'])
    expect(await ok(['release', name])).toBe(`server ${name} is released\n`)
    expect(await ok(['release', name])).toBe(`server ${name} was not reserved\n`)
  })

  it(
    'that cannot start says so: exit code 5 without a build, 6 without a server, 130 after Ctrl-C',
    { timeout: 300_000 },
    async () => {
      expect(await run(['allocate', 'no-such-build'])).toMatchObject({
        code: 5,
        stderr: expect.stringContaining('no-such-build'),
      })
      await ok(
        ['apply', '-f', '-'],
        buildYaml.replaceAll('arena', 'empty').replace('standingBy: 1', 'standingBy: 0').replace('max: 3', 'max: 0'),
      )
      expect((await run(['allocate', 'empty-1'])).code).toBe(6)
      const { code, stderr } = await run(['allocate', 'empty-1', '--json'])
      expect([code, JSON.parse(stderr)]).toEqual([6, { code: 'max-reached', error: expect.any(String) }])
      const waiting = startCli(['allocate', 'empty-1', '--wait', '60'], { cwd, env })
      await until('the caller waits', async () => {
        const response = await fetch(`${env['GAMEKEEPER_URL']}/api/v1/stats`, {
          headers: { Authorization: `Bearer ${tokens.manage}` },
        })
        return (await response.text()).includes('"waiting":1')
      })
      waiting.signal('SIGINT')
      expect(await waiting.exit()).toMatchObject({ code: 130, stdout: '' })
      await ok(['delete', 'build', 'empty'])
    },
  )
})

describe('scale, drain and resume', () => {
  it('change a build, and show progress', { timeout: 240_000 }, async () => {
    await ok(['apply', '-f', '-'], buildYaml.replaceAll('arena', 'rest'))
    await standingBy('rest')
    expect(await ok(['scale', 'rest', '--max', '2'])).toMatch(/^build rest: \d\/1 standing by, at most 2\n$/)
    const drained = await run(['drain', 'build', 'rest'])
    expect(drained).toMatchObject({ code: 0, stdout: 'drained\n' })
    expect(drained.stderr).toMatch(/rest/)
    const status = await run(['status'])
    // A drain is no failure.
    expect([status.code, status.stdout.split('\n').slice(0, 3)]).toEqual([
      0,
      [
        expect.stringMatching(/^! rest is drained \(since \d{4}-.*Z\)$/),
        '    drained by an operator; no allocations and no new servers until it is resumed',
        '    Resume the build when it may be allocated again.',
      ],
    ])
    expect((await okJson(['resume', 'rest'])).metadata.name).toBe('rest')
    const next = await standingBy('rest')
    expect(await okJson(['drain', 'server', next])).toEqual({ remaining: 0 })
    await ok(['delete', 'build', 'rest'])
  })

  it('says how many servers a build keeps ready, and why', async () => {
    const policies = buildYaml.replaceAll('arena', 'crowd').replace('standingBy: 1', 'standingBy: 0').concat(`
  scaling:
    buffer: { min: 1, percent: 20 }
    idleSeconds: 3600
`)
    expect(await ok(['apply', '-f', '-'], policies)).toBe('build crowd created\n')
    await standingBy('crowd')
    expect(await ok(['explain', 'crowd'])).toBe(
      'crowd is Healthy: 1 of 1 ready, 0 Active, at most 3\n' +
        'it keeps 1 ready, as buffer decides: standingBy asks for 0; buffer asks for 1 (20 % of 0 in use)\n',
    )
    expect((await okJson(['explain', 'crowd'])).status.scaling).toMatchObject({ standingBy: 1, decider: 'buffer' })
    expect(await ok(['get', 'builds'])).toMatch(/\ndefault +crowd +crowd-1 +1\/1 .* Ready /)
    expect(await ok(['scale', 'crowd', '--standing-by', '0'])).toMatch(/^build crowd: \d\/\d standing by/)
    const overridden = await until('the policies are overridden', async () => {
      const text = await ok(['explain', 'crowd'])
      return text.includes('ScalingOverridden since') ? text : undefined
    })
    expect(overridden).toContain('it keeps 0 ready, as override decides: standingBy was set to 0 by hand')
    const refused = await run(['apply', '-f', '-'], {}, policies.replace('percent: 20', 'percent: x'))
    expect([refused.code, refused.stderr]).toEqual([1, expect.stringContaining('spec.scaling.buffer.percent')])
    await ok(['delete', 'build', 'crowd'])
    expect((await run(['explain', 'crowd'])).stderr).toContain('server default/crowd')
  })

  it.each([
    [['scale', 'arena'], 2, 'scale needs --standing-by, --max or both'],
    [['scale', 'arena', '--standing-by', '9'], 1, 'standingBy'],
    [['scale', 'arena', '--max', 'x'], 2, 'It must be a whole number from 0 to 999999'],
    [['scale', 'no-such', '--max', '1'], 5, 'no-such'],
    [['drain', 'build'], 2, 'drain build needs the name of the build'],
    [['delete', 'biuld', 'x'], 2, 'Allowed choices are build, server'],
    [['get', 'srever'], 2, 'Allowed choices are builds, servers, sessions'],
    [['apply'], 2, 'apply needs a file: gamekeeper apply build.json, or - for stdin'],
    [['apply', 'a.json', '-f', 'b.json'], 2, 'apply takes one file, but got a.json and --file b.json'],
    [['end', 'no-such'], 5, 'no-such'],
    [['release', 'no-such'], 5, 'no-such'],
    [['get', 'builds', '--wacth'], 2, 'did you mean --watch?'],
    [['logs', 'no-such-server'], 5, 'no-such-server'],
    [['explain', 'no-such-server'], 5, 'no-such-server'],
    [['resume', 'no-such'], 5, 'no-such'],
    [['get', 'sessions', 'no-such'], 5, 'no server has the session "no-such"'],
    [['get', 'sessions', '--player', 'nobody'], 5, 'nobody'],
    [['get', 'sessions', '--build', 'no-such'], 5, 'no-such'],
    [['get', 'servers', '--player', 'amie'], 2, '--player goes with get sessions'],
    [['get', 'sessions', 'a', '--build', 'arena'], 2, '--build goes with get servers and get sessions'],
    [['allocate', 'arena-1', '--wait', '61'], 1, 'wait must be a number of seconds from 0 to 60, but is "61"'],
    [['allocate', 'arena-1', '--wait', '1.5'], 2, 'It must be a whole number from 0 to 999999'],
    [['allocate'], 2, 'allocate needs either a buildID or --server'],
    [['allocate', 'arena-1', '--server', 'arena-x'], 2, 'allocate needs either a buildID or --server'],
    [['allocate', '--server', 'no-such'], 5, 'no-such'],
    [['get', 'builds', '..'], 1, 'must be a string other than "", . and ..'],
    [['drain', 'build', '../.'], 1, 'must be a string other than "", . and ..'],
    [['delete', 'build', 'default/arena/x'], 2, 'expected a name or namespace/name, but got "default/arena/x"'],
    [['logs'], 2, 'logs needs either the name of a server or --session'],
    [['logs', ''], 2, 'expected a name or namespace/name, but got ""'],
    [['events', '--type', 'Alocated'], 2, 'Allocated'],
  ])('%j ends with exit code %i and one line', async (args, code, message) => {
    const result = await run(args)
    expect(result).toEqual({ code, stdout: '', stderr: expect.stringContaining(message) })
    expect(result.stderr.trimEnd().split('\n')).toHaveLength(1)
  })
})

describe('on a terminal', () => {
  const terminal = { columns: 120, rows: 24 }
  /** What the terminal shows after the last time that the table was painted. */
  const screen = (stdout: string) =>
    stripVTControlCharacters((stdout.split('\u001b[J').at(-1) ?? '').replaceAll('\r', ''))

  it('tables fit, without empty columns and the only namespace, in colours', { timeout: 300_000 }, async () => {
    await standingBy('arena')
    const { code, stdout } = await cli(['get', 'servers'], { cwd, env, terminal })
    expect(code).toBe(0)
    const lines = screen(stdout).trimEnd().split('\n')
    expect(lines[0]).toMatch(/^NAME +STATE +HEALTH +ADDRESS +PORTS +(SESSION +)?AGE$/)
    expect(lines.every((line) => line.length <= 120)).toBe(true)
    expect(stdout).toContain('\u001b[32mStandingBy\u001b[39m')
  })

  it('--watch paints in place, and status --watch too', { timeout: 240_000 }, async () => {
    await standingBy('arena')
    const servers = startCli(['get', 'servers', '--watch'], { cwd, env, terminal })
    const status = startCli(['status', '--watch'], { cwd, env, terminal })
    await servers.untilPrinted(/StandingBy/)
    await status.untilPrinted(/nothing is wrong/)
    const session = 'b3a1c8d2-0000-4000-8000-000000000009'
    const { server } = await okJson(['allocate', 'arena-1', '--session', session])
    await until('the table has the session', () => /Active/.test(screen(servers.stdout())))
    // One row for the server, wherever it is now.
    const rows = screen(servers.stdout()).split('\n')
    expect(rows.filter((line) => line.startsWith(server.name))).toHaveLength(1)
    expect(servers.stdout().split('\u001b[J').length).toBeGreaterThan(2)
    await until('the status counts it', () => /1 Active/.test(screen(status.stdout())))
    await ok(['end', session])
    await until('the status counts it no more', () => !/Active/.test(screen(status.stdout())))
    for (const running of [servers, status]) {
      running.write('\u0003')
      expect((await running.exit()).code).toBe(0)
    }
  })
})

describe('events and status', () => {
  it('prints events from the log, of some types, and new ones until Ctrl-C', { timeout: 300_000 }, async () => {
    const lines = await ok(['events', '--from', '1', '--type', 'BuildCreated', '--limit', '1', '--json'])
    expect(JSON.parse(lines)).toMatchObject({ type: 'BuildCreated', build: { name: 'arena' } })
    const following = startCli(['events', '--from', '1'], { cwd, env })
    await following.untilPrinted(/ BuildCreated: .*arena/)
    following.signal('SIGINT')
    expect(await following.exit()).toMatchObject({ code: 0, stderr: '' })
  })

  it('simulates a load on a build of the server', { timeout: 300_000 }, async () => {
    const report = await okJson(['simulate', 'arena', '--hours', '0.5', '--allocations-per-minute', '0.5'])
    expect(report).toMatchObject({ build: 'arena', standingBy: 1, max: 3, load: { hours: 0.5 } })
  })

  it('says that nothing is wrong', { timeout: 300_000 }, async () => {
    await standingBy('arena')
    const status = await okJson(['status'])
    expect(status).toMatchObject({ ready: true, problems: [], builds: 1 })
    expect(await ok(['status'])).toMatch(
      /^nothing is wrong\nhttp:\/\/127\.0\.0\.1:\d+: builds: 1; servers: \d StandingBy/,
    )
  })
})

describe('a server that does not answer as hoped', () => {
  it.each([
    ['no server there', { GAMEKEEPER_URL: 'http://127.0.0.1:1' }, 3, /cannot be reached: .*ECONNREFUSED|bad port/],
    ['a wrong token', { GAMEKEEPER_TOKEN: 'x'.repeat(20) }, 4, /token|credential|authenticat/i],
    ['a token of another role', { GAMEKEEPER_TOKEN: tokens.allocate }, 4, /read|role|may not|forbidden/i],
    ['a wrong URL', { GAMEKEEPER_URL: 'localhost:5001' }, 1, /^gamekeeper: GAMEKEEPER_URL must be a URL like/],
    [
      'no token file',
      { GAMEKEEPER_CA: 'no.pem' },
      1,
      /^gamekeeper: GAMEKEEPER_CA names "no.pem", which cannot be read: ENOENT/,
    ],
  ])('with %s, %j gives exit code %i and one line', async (_, more, code, message) => {
    for (const args of [['get', 'builds'], ['events']]) {
      const result = await run(args, more)
      expect([result.code, result.stdout]).toEqual([code, ''])
      expect(result.stderr).toMatch(message)
      expect(result.stderr.trimEnd().split('\n')).toHaveLength(1)
    }
  })
})

describe('DATA_DIR', () => {
  it('of a running host is refused; after it has left, it says what is stored', { timeout: 240_000 }, async () => {
    await standingBy('arena')
    const session = 'b3a1c8d2-0000-4000-8000-000000000002'
    await ok(['allocate', 'arena-1', '--session', session, '--player', 'amie', '--wait', '30', '--confirm'])
    const stored = (args: readonly string[]) => cli([...args, '--data-dir', '.gamekeeper'], { cwd })
    const refused = await stored(['get', 'builds'])
    expect([refused.code, refused.stdout]).toEqual([1, ''])
    expect(refused.stderr).toMatch(
      /is in use by a running host; its host answers through its API: leave out --data-dir, and set --url if it is not http:\/\/127\.0\.0\.1:5001\n$/,
    )
    // A directory in the environment does not get in the way of the server's address.
    const own = { DATA_DIR: '.gamekeeper', MANAGEMENT_PORT: new URL(env['GAMEKEEPER_URL'] ?? '').port }
    const asked = await cli(['status', '--json', '--token-file', 'token'], { cwd, env: own })
    expect(JSON.parse(asked.stdout)).toMatchObject({ url: env['GAMEKEEPER_URL'], ready: true })

    const listed = (await okJson(['get', 'sessions']))[0]
    server.signal('SIGTERM')
    await server.exit()
    const status = await stored(['status'])
    expect(status.code).toBe(1)
    expect(status.stdout.split('\n')[0]).toBe(
      `! no host runs on ${join(cwd, '.gamekeeper')}; this is what the last one stored`,
    )
    expect(status.stdout).toMatch(/: builds: 1; servers: .*1 Active/)
    const json = async (args: readonly string[]) => JSON.parse((await stored([...args, '--json'])).stdout)
    expect(await json(['get', 'sessions', session])).toEqual([listed])
    expect(await json(['get', 'sessions', '--player', 'amie'])).toEqual([listed])
    expect(await json(['get', 'builds', 'arena'])).toMatchObject([{ spec: { buildID: 'arena-1' } }])
    expect(await json(['get', 'servers', '--build', 'arena'])).toHaveLength(2)
    const { name } = listed.server
    expect((await stored(['explain', name])).stdout).toMatch(
      new RegExp(
        `^${name} is Active, health Healthy\n\\S+ was created\n[^]*\\S+ was allocated to session ${session}\nLast lines of its log:\n[^]*\nNext: gamekeeper logs ${name}\n$`,
      ),
    )
    expect((await stored(['logs', name])).stdout).toContain(`session ${session} begins, expecting amie`)
    // Now it does.
    const offline = await cli(['get', 'sessions', '--json'], { cwd, env: own })
    expect(JSON.parse(offline.stdout)).toEqual([listed])
    for (const args of [
      ['get', 'builds', '--watch'],
      ['logs', name, '-f'],
    ]) {
      expect((await stored(args)).stderr).toMatch(
        /^gamekeeper: --(watch|follow) needs a running host, but none runs on/,
      )
    }
    await start()
    expect((await okJson(['get', 'sessions']))[0]).toEqual(listed)
  })
})
