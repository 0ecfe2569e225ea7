/** `gamekeeper attach` as a process, against a real server with real games on processes. */
import { mkdtemp, realpath, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { until } from '../e2e/until.js'
import { cli, type CliOptions, launchCli, type RunningCli, startCli } from './cli.js'

const tokens = { manage: 'm'.repeat(20), read: 'r'.repeat(20), allocate: 'a'.repeat(20) }
const script = 'echo up; echo ready; while read -r line; do echo "got $$line"; [ "$$line" != stop ] || exit 0; done'
const build = (name: string, stdin: boolean, game: string) => ({
  metadata: { name },
  spec: {
    buildID: name,
    standingBy: 1,
    max: 1,
    // These games send no heartbeats, and are never ready.
    health: { firstHeartbeatSeconds: 3_600, lateStartSeconds: 3_600 },
    run: { command: ['/bin/sh', '-c', game], stdin },
  },
})

let server: RunningCli
let cwd = ''
let options: CliOptions = {}

beforeAll(async () => {
  cwd = await realpath(await mkdtemp(join(tmpdir(), 'gamekeeper-cli-')))
  const ports = { ALLOCATION_PORT: '0', MANAGEMENT_PORT: '0', AGENT_PORT: '0', PORT_RANGE: '30240-30259' }
  const env = {
    ...ports,
    SAMPLE: 'off',
    MANAGE_TOKENS: tokens.manage,
    READ_TOKENS: tokens.read,
    ALLOCATE_TOKENS: tokens.allocate,
  }
  server = launchCli(['serve'], { cwd, env })
  const [, url = ''] = await server.untilPrinted(/"management":"([^"]+)"/)
  options = { cwd, env: { GAMEKEEPER_URL: url, GAMEKEEPER_TOKEN: tokens.manage } }
  for (const one of [build('console', true, script), build('deaf', false, 'echo up; exec sleep 600')]) {
    expect(await cli(['apply', '-f', '-'], { ...options, input: JSON.stringify(one) })).toMatchObject({ code: 0 })
  }
}, 300_000)
afterAll(async () => {
  await cli(['drain', 'fleet', '--terminate', '--deadline', '10'], options)
  server.signal('SIGTERM')
  await server.exit()
  await rm(cwd, { recursive: true, force: true })
}, 300_000)

/** A server whose game has printed its first line. */
function serverOf(name: string): Promise<string> {
  return until(`a server of ${name} runs`, async () => {
    const { stdout } = await cli(['get', 'servers', '--json'], options)
    const servers: readonly { readonly metadata: { readonly name: string } }[] = JSON.parse(stdout)
    const found = servers.find(({ metadata }) => metadata.name.startsWith(`${name}-`))?.metadata.name
    if (found === undefined) return undefined
    return (await cli(['logs', found], options)).stdout.includes('up') ? found : undefined
  })
}

it(
  'prints what the game prints and sends what is typed, until Ctrl-C, which the game survives',
  { timeout: 300_000 },
  async () => {
    const name = await serverOf('console')
    const attached = startCli(['attach', name, '--tail', '1'], options)
    await attached.untilPrinted(/^ready$/m)
    attached.write('say hello\n')
    await attached.untilPrinted(/^got say hello$/m)
    attached.write('save\n')
    await attached.untilPrinted(/^got save$/m)
    attached.signal('SIGINT')
    expect(await attached.exit()).toEqual({ code: 0, stdout: 'ready\ngot say hello\ngot save\n', stderr: '' })
    const again = startCli(['attach', name, '--json'], options)
    await again.untilPrinted(/\{"line":"got save"\}/)
    expect(again.stdout()).toContain('{"line":"up"}')
  },
)

it(
  'sends the lines of a pipe with a token for reading, leaves at their end, and ends with the game',
  { timeout: 300_000 },
  async () => {
    const name = await serverOf('console')
    const watching = startCli(['attach', name], options)
    await watching.untilPrinted(/^ready$/m)
    const reading = { ...options, env: { ...options.env, GAMEKEEPER_TOKEN: tokens.read } }
    expect(await cli(['attach', name], { ...reading, input: 'first\nsecond' })).toMatchObject({ code: 0, stderr: '' })
    await watching.untilPrinted(/^got first\ngot second$/m)
    const allocating = { ...options, env: { ...options.env, GAMEKEEPER_TOKEN: tokens.allocate } }
    const refused = await cli(['attach', name], { ...allocating, input: 'stop\n' })
    expect(refused.code).not.toBe(0)
    expect(refused.stderr).toContain('requires the role read')
    watching.write('stop\n')
    await until('the command ends with the game', () => !isRunning(watching.pid) || undefined)
    expect(await watching.exit()).toMatchObject({ code: 0, stderr: '' })
  },
)

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    // There is no such process.
    return false
  }
}

it('fails if the build has no stdin, and names the field', { timeout: 300_000 }, async () => {
  const refused = await cli(['attach', await serverOf('deaf')], { ...options, input: 'say hello\n' })
  expect(refused.code).not.toBe(0)
  expect(refused.stderr).toContain('its template has no stdin: true')
})
