/** A host that may open few files says so: `doctor` beforehand, from the builds that are stored, and `serve` once most of them are open. */
import { connect } from 'node:net'
import { join } from 'node:path'
import { createFleet } from 'gamekeeper'
import { processBackend } from 'gamekeeper/process'
import { expect, it, onTestFinished } from 'vitest'
import { cli, emptyDirectory, startCli } from './cli.js'

const env = { ALLOCATION_PORT: '0', MANAGEMENT_PORT: '0', AGENT_PORT: '0', SAMPLE: 'off', DATA_DIR: 'data' }

it('doctor compares the limit with the max of the stored builds', { timeout: 300_000 }, async () => {
  const cwd = await emptyDirectory()
  const backend = processBackend({ directory: join(cwd, 'data') })
  const fleet = await createFleet({ backend, agent: { port: 0 }, logger: false })
  const run = { command: ['sleep', '60'] }
  await fleet.builds.create({ metadata: { name: 'arena' }, spec: { buildID: 'arena', standingBy: 0, max: 40, run } })
  await fleet.close()
  const { code, stdout } = await cli(['doctor'], { cwd, env, openFiles: 160 })
  expect(stdout).toContain(
    'FAIL open files: at most 160, enough for about 20 game servers, but the builds have a max of 40 together; raise it (ulimit -n, or LimitNOFILE of systemd)',
  )
  expect(code).toBe(1)
  const enough = await cli(['doctor'], { cwd, env, openFiles: 400 })
  expect(enough.stdout).toContain('ok   open files: at most 400, enough for about 100 game servers')
})

it('a host whose files are nearly all open logs it', { timeout: 300_000 }, async () => {
  const cwd = await emptyDirectory()
  const host = startCli(['serve'], { cwd, env, openFiles: 120 })
  const [, port = ''] = await host.untilPrinted(/"agent":"http:\/\/127\.0\.0\.1:(\d+)/)
  for (let n = 0; n < 120; n++) {
    const socket = connect(Number(port), '127.0.0.1').on('error', () => {})
    onTestFinished(() => void socket.destroy())
  }
  await host.untilPrinted(/\d+ of at most 120 files and connections are open: at the limit, connections of games/)
})
