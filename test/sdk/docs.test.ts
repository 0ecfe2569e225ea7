/** Compares docs/reference/sdk.md with the SDK: its programs compile and run, and its tables are complete. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { defaultTiming } from '../../src/sdk/heartbeat-loop.js'
import { allocates, configuredFor, fakeAgent, sessionConfig, startAgainst, until } from './fake-agent.js'

const root = fileURLToPath(new URL('../..', import.meta.url))
let page = ''
beforeAll(async () => {
  page = await readFile(join(root, 'docs/reference/sdk.md'), 'utf8')
})

/** The program of the page that begins with the name of this file. `test/package/programs.test.ts` checks its types. */
function program(file: string): string {
  return new RegExp(`^\`\`\`js\n(// ${file}\n[^]*?)^\`\`\`$`, 'm').exec(page)?.[1] ?? ''
}

/** The first column of the table with this first heading. */
function column(heading: string): string[] {
  const table = new RegExp(`^\\| ${heading} .*\n\\| -.*\n((?:\\|.*\n)+)`, 'm').exec(page)?.[1] ?? ''
  return table.split('\n').flatMap((row) => /^\| `([^`]+)`/.exec(row)?.[1] ?? [])
}

/** Starts a program as a game server and waits until it is allocated. */
async function playUntilActive(text: string, format: string): Promise<{ readonly output: () => string }> {
  const probe = createServer().listen(0, '127.0.0.1')
  await once(probe, 'listening')
  const address = probe.address()
  const port = typeof address === 'object' && address !== null ? address.port : 0
  probe.close()
  await once(probe, 'close')

  const agent = await fakeAgent()
  agent.reply = allocates()
  const { GSDK_CONFIG_FILE } = await configuredFor(agent.endpoint, {
    ports: [{ name: 'game', listening: port, public: port }],
  })
  const child = spawn(process.execPath, [`--input-type=${format}`, '--eval', text], {
    cwd: root,
    env: { PATH: process.env['PATH'], GSDK_CONFIG_FILE },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  onTestFinished(() => void child.kill('SIGKILL'))
  let output = ''
  child.stdout.setEncoding('utf8').on('data', (part: string) => (output += part))
  await until(() => agent.last()?.state === 'Active')
  return { output: () => output }
}

describe('docs/reference/sdk.md', () => {
  it('shows a game server that runs', async () => {
    const game = await playUntilActive(program('game.mjs'), 'module')
    await until(() => game.output().includes(`session ${sessionConfig.sessionId} for amie, bob`))
  })

  it('shows a game server as a CommonJS module that runs', async () => {
    const game = await playUntilActive(program('game.cjs'), 'commonjs')
    await until(() => game.output().includes(`allocated with ${sessionConfig.sessionCookie}`))
  })

  it('lists every member of the object that start() resolves with', async () => {
    const gsdk = await startAgainst(await fakeAgent())
    const listed = column('member').flatMap((name) => /^(\w+)(?:\(\w*\))?$/.exec(name)?.[1] ?? [])
    expect(listed.toSorted()).toEqual(Object.keys(gsdk).toSorted())
  })

  it('lists every option', async () => {
    const source = await readFile(join(root, 'src/sdk/start-sdk.ts'), 'utf8')
    const declared = [...source.matchAll(/^ {2}readonly (\w+)\?:/gm)].map((match) => match[1])
    expect(column('option')).toEqual(declared)
  })

  it('lists every timing with its default', () => {
    const rows = page.matchAll(/^\| ((?:`\w+Ms`(?:, )?)+) \| ([\d,; ]+) \|/gm)
    const listed = Array.from(rows, ([, names = '', values = '']) => {
      const numbers = values.split(';').map((value) => Number(value.replaceAll(',', '')))
      return names.split(', ').map((name, index) => [name.replaceAll('`', ''), numbers[index]])
    })
    expect(Object.fromEntries(listed.flat())).toEqual(defaultTiming)
  })

  it('lists every variable of the example game server', async () => {
    const source = await readFile(join(root, 'examples/game-server/server.mjs'), 'utf8')
    const used = [...source.matchAll(/(?:env\['|switchMs\(')([A-Z_\d]+)'/g)].flatMap((match) => match[1] ?? [])
    const listed = column('variable').map((name) => name.replace(/=.*/, ''))
    expect(listed.toSorted()).toEqual([...new Set(used)].toSorted())
  })
})
