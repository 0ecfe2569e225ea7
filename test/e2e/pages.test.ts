/** Does what the pages print, in a project that has only the packed package: their programs run, and their commands are sent. */
import { execFile, spawn } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { promisify } from 'node:util'
import { beforeEach, describe, expect, it } from 'vitest'
import type { Allocation, GameServer } from 'gamekeeper'
import { link, pack, unpack } from '../package/consumer.js'
import { allBlocks, fileOf } from '../package/pages.js'
import { responses } from './curl.js'
import { spawnInTerminal, watch } from './host.js'
import { until } from './until.js'
import { type Workplace, workplace } from './workplace.js'

const exec = promisify(execFile)
const limitMs = 400_000

let place: Workplace

beforeEach(async () => {
  place = await workplace('.gamekeeper')
  await unpack(await pack(place.root), place.root)
  await link(place.root, ['croner', 'eventemitter3', 'lmdb'])
}, limitMs)

/** Saves the programs of a page under the names that it gives them. */
async function save(page: string): Promise<void> {
  const named = allBlocks(page).filter((block) => fileOf(block.text) !== '')
  expect(named).not.toEqual([])
  await Promise.all(named.map((block) => writeFile(join(place.root, fileOf(block.text)), block.text)))
}

function start(program: string) {
  return watch(spawn(process.execPath, [program], { cwd: place.root }))
}

const commandsOf = (page: string) => allBlocks(page).filter(({ language }) => language === 'sh')
const management = 'http://127.0.0.1:5001/api/v1'

async function json<T>(path: string): Promise<T> {
  const response = await fetch(`${management}${path}`)
  const body = await response.text()
  if (!response.ok) throw new Error(body)
  return JSON.parse(body)
}

describe('docs/getting-started.md', () => {
  it('leads to a match on a game server of one’s own', { timeout: limitMs }, async () => {
    const page = 'docs/getting-started.md'
    await save(page)
    const [, run = '', allocate = '', test = '', ...others] = commandsOf(page).map((block) => block.text)
    expect({ run, others }).toEqual({ run: 'node main.mjs\n', others: [] })
    const host = watch(spawnInTerminal([process.execPath, 'main.mjs'], { cwd: place.root }))
    await until('it is ready', () => host.stdout().startsWith('ready') || host.process.exitCode !== null)

    const [{ status, body } = { status: 0, body: '' }] = await responses(allocate)
    expect({ status, body }).toEqual({ status: 200, body: expect.stringContaining('IPV4Address') })
    const { Ports }: Allocation = JSON.parse(body)
    expect(await text(connect(Number(Ports.split(':')[1]), '127.0.0.1'))).toBe('welcome\n')

    host.pressCtrlC()
    expect(await host.exit()).toEqual({ code: 0, signal: null })
    expect(host.stdout()).toMatch(/^ready \S+ \S+\s*$/)
    expect(await place.running()).toEqual([])
    await exec('sh', ['-c', test], { cwd: place.root })
  })
})

describe('docs/guides/games-without-sdk.md', () => {
  it('leads from a game that imports nothing to the end of its match', { timeout: limitMs }, async () => {
    const page = 'docs/guides/games-without-sdk.md'
    await save(page)
    expect(commandsOf(page).map(({ text: command }) => command)).toEqual(['node main.mjs\n'])
    const host = start('main.mjs')
    expect(await host.exit()).toEqual({ code: 0, signal: null })
    for (const line of ['the game reads: match first-match', "players: [ 'amie' ]", 'Finished'])
      expect(host.stdout()).toContain(line)
  })
})

describe('docs/reference/http-api.md', () => {
  it('prints commands that the host on the page answers with 200', { timeout: limitMs }, async () => {
    const page = 'docs/reference/http-api.md'
    await save(page)
    const host = start('main.mjs')
    await until('it is ready', () => host.stdout().includes('http://') || host.process.exitCode !== null)
    const sent = commandsOf(page).filter(({ text: command }) => command.startsWith('curl'))
    const create = sent.find(({ text: command }) =>
      command.includes('-X POST http://127.0.0.1:5001/api/v1/gameserverbuilds/'),
    )
    expect(sent.length).toBeGreaterThan(8)
    await responses(create?.text ?? '')
    await untilStandingBy()
    for (const block of sent.filter((each) => each !== create)) {
      for (const { url, status, body } of await responses(await filledIn(block.text))) {
        expect({ line: block.line, url, status, body }).toMatchObject({ status: 200 })
      }
    }
    // The page ends with the deletion of the build.
    await until('its servers are gone', async () => (await place.running()).length === 0)
    expect(await host.exit('SIGTERM')).toEqual({ code: 0, signal: null })
  })
})

function untilStandingBy(): Promise<GameServer> {
  return until('a server is ready', async () =>
    (await json<readonly GameServer[]>('/gameservers/')).find(({ status }) => status.state === 'StandingBy'),
  )
}

/** Replaces what the page says is to be replaced. */
async function filledIn(command: string): Promise<string> {
  const inAnHour = new Date(Date.now() + 3_600_000).toISOString()
  const dated = command.replaceAll(/\d{4}-\d\d-\d\dT[\d:]+Z/g, inAnHour)
  if (!/arena-x7k2p|nodes\/laptop/.test(command)) return dated
  const server = await untilStandingBy()
  return dated.replaceAll('arena-x7k2p', server.metadata.name).replaceAll('/laptop/', `/${server.status.nodeName}/`)
}

describe('docs/reference/sdk.md', () => {
  it.each(['game.mjs', 'game.cjs'])('has a game server %s that becomes ready and gets its match', async (game) => {
    await save('docs/reference/sdk.md')
    const template = {
      spec: { containers: [{ command: ['node', game], ports: [{ name: 'game', containerPort: 7777 }] }] },
    }
    const spec = { buildID: 'sdk', standingBy: 1, max: 1, portsToExpose: [7777], template }
    const request = { buildID: 'sdk', sessionID: 'd3b07384-d9a0-4d5b-8f3c-1f1c3f0e9a11' }
    await writeFile(
      join(place.root, 'host.mjs'),
      `import { createFleet } from 'gamekeeper'
       import { processBackend } from 'gamekeeper/process'
       const fleet = await createFleet({ backend: processBackend(), agent: { port: 0 } })
       await fleet.builds.create(${JSON.stringify({ metadata: { name: 'sdk' }, spec })})
       const options = { waitMs: 30_000, confirm: true }
       console.log(JSON.stringify(await fleet.allocate(${JSON.stringify(request)}, options)))
       await fleet.builds.delete('sdk')
       await fleet.drain()
       await fleet.close()`,
    )
    const host = start('host.mjs')
    expect(await host.exit()).toEqual({ code: 0, signal: null })
    expect(JSON.parse(host.stdout())).toMatchObject({ SessionID: request.sessionID })
  })
})
