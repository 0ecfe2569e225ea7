/** The example host apps, run as documented in their first lines: routes below /fleet, authentication, and shutdown. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterEach, describe, expect, it, onTestFinished } from 'vitest'
import { fleetClient } from '../../src/client/index.js'
import { build, buildID, sessionID } from '../http/fleet.js'
import { call, until } from '../http/client.js'
import { read, root } from '../package/sources.js'

const tsx = pathToFileURL(createRequire(import.meta.url).resolve('tsx')).href
const token = 'token-of-this-test'

const hosts: readonly (readonly [name: string, env: NodeJS.ProcessEnv])[] = [
  ['node-http', {}],
  ['express', {}],
  ['fastify', {}],
  ['koa', {}],
  ['hono', {}],
  ['nestjs', { PLATFORM: 'express' }],
  ['nestjs', { PLATFORM: 'fastify' }],
]

let host: ChildProcess | undefined
afterEach(() => {
  if (host?.exitCode === null) host.kill('SIGKILL')
})

describe.each(hosts)('examples/%s/main.ts %j', (name, env) => {
  it('allocates servers to authenticated callers, and exits on SIGTERM', { timeout: 300_000 }, async () => {
    const child = spawn(process.execPath, ['--import', tsx, `examples/${name}/main.ts`], {
      cwd: root,
      env: { ...process.env, ...env, PORT: '0', FLEET_TOKEN: token },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    host = child
    const origin = await originOf(child)

    const fleet = fleetClient({ url: `${origin}/fleet`, token, retries: 0 })
    await fleet.builds.create(build({ standingBy: 1, max: 1 }))
    const server = await fleet.allocate({ buildID, sessionID }, { waitMs: 10_000 })
    expect(server).toMatchObject({ SessionID: sessionID })
    await expect(fleetClient({ url: `${origin}/fleet` }).builds.list()).rejects.toMatchObject({
      code: 'unauthenticated',
    })
    // The app answers other paths.
    const elsewhere = await call('GET', `${origin}/other`, { headers: { Authorization: `Bearer ${token}` } })
    expect(elsewhere.status).toBe(404)
    expect(elsewhere.text).not.toContain('nothing is served at')

    const other = { buildID, sessionID: sessionID.replace('d', 'e') }
    const sentAway = fleet.allocate(other, { waitMs: 50_000 }).catch((error: unknown) => error)
    // Answered after the signal, which has therefore arrived.
    for (let i = 0; i < 3; i++) await fleet.builds.list()
    const gone = once(child, 'exit')
    child.kill('SIGTERM')
    expect(await sentAway).toMatchObject({ code: 'closed' })
    // NestJS exits by the signal that it received.
    expect(await gone).toEqual(name === 'nestjs' ? [null, 'SIGTERM'] : [0, null])
  })
})

describe('docs/guides/embedding.md', () => {
  const [, block = ''] = /gains a fleet by:\n\n```ts\n([^]*?)```/.exec(read('docs/guides/embedding.md')) ?? []

  it('adds allocation and management to an Express app in under ten lines', { timeout: 300_000 }, async () => {
    expect(block.trim().split('\n').length).toBeLessThan(10)
    const directory = await mkdtemp(join(tmpdir(), 'gamekeeper-host-'))
    onTestFinished(() => rm(directory, { recursive: true, force: true }))
    // Unchanged except for a directory and a port of its own.
    const own = `{ backend: processBackend({ directory: ${JSON.stringify(directory)} }), agent: { port: 0 } }`
    const added = block.replace('{ backend: processBackend() }', own)
    expect(added).not.toBe(block)
    const program = `import express from 'express'
      const app = express()
      app.use(express.json())
      app.use((request, response, next) => (request.get('x-user') === 'amie' ? next() : response.status(401).end()))
      ${added}
      const server = app.listen(0, '127.0.0.1', () => console.log(server.address()))`
    const child = spawn(process.execPath, ['--input-type=module', '--eval', program], { cwd: root })
    host = child
    const origin = await originOf(child)
    const headers = { 'X-User': 'amie', 'Content-Type': 'application/json' }
    const ask = (method: string, path: string, body?: unknown) =>
      call(method, `${origin}/fleet/api/v1/${path}`, { headers, body })
    expect(await ask('POST', 'gameserverbuilds', build({ standingBy: 0 }))).toMatchObject({ status: 200 })
    expect(await ask('GET', 'gameservers')).toMatchObject({ status: 200, text: '[]' })
    expect(await ask('POST', 'allocate', { buildID, sessionID })).toMatchObject({ status: 429 })
    expect(await fetch(`${origin}/fleet/api/v1/gameservers`)).toMatchObject({ status: 401 })
    const gone = once(child, 'exit')
    child.kill()
    await gone
  })
})

/** The host's origin, once it has printed its address. */
async function originOf(child: ChildProcess): Promise<string> {
  let output = ''
  child.stdout?.on('data', (chunk: Buffer) => (output += chunk.toString()))
  child.stderr?.on('data', (chunk: Buffer) => (output += chunk.toString()))
  await until(() => /port: \d+/.test(output) || child.exitCode !== null, 50_000)
  expect(output).toMatch(/port: \d+/)
  return `http://127.0.0.1:${/port: (\d+)/.exec(output)?.[1]}`
}
