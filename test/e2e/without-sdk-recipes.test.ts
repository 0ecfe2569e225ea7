/** The recipes of docs/guides/games-without-sdk.md: each is a build, whose game is replaced by one that speaks the same protocol. */
import { randomUUID } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, it, onTestFinished } from 'vitest'
import { parse } from 'yaml'
import { createFleet, type EventOf, type Fleet, type GameServerBuildInput } from 'gamekeeper'
import { memoryBackend } from 'gamekeeper/memory'
import { queryProtocols } from '../../src/rules/game/probes.js'
import { blocks } from '../package/pages.js'
import { ownFleet } from './own-fleet.js'
import { portRange } from './port-ranges.js'
import { until } from './until.js'
import { workplace } from './workplace.js'

const program = fileURLToPath(new URL('../games/query-game.mjs', import.meta.url))

interface Recipe {
  /** The name of its build. */
  readonly name: string
  /** A line that the real game prints once it is ready, for those whose log is read. */
  readonly prints?: string
  /** The players that are seen while two play, who are called amie and ben. Absent: unknown. */
  readonly players?: string
  /** How the session is told, as the game sees it. */
  readonly told?: string
  /** Whether its game starts with its session, by its own script. */
  readonly starts?: true
  readonly ends: 'when it is empty' | 'by exit' | 'by a call' | { readonly print: string }
}

const named = 'amie,ben'
const unnamed = 'unnamed-1,unnamed-2'

const recipes: readonly Recipe[] = [
  { name: 'minecraft', players: named, told: 'say match {sessionID}', ends: 'when it is empty' },
  { name: 'minecraft-rcon', players: named, told: 'session say match {sessionID} began', ends: 'when it is empty' },
  {
    name: 'minecraft-jar',
    prints: '[12:00:01] [Server thread/INFO]: Done (9.123s)! For help, type "help"',
    players: named,
    told: 'say match {sessionID}',
    ends: 'when it is empty',
  },
  { name: 'bedrock', players: unnamed, told: 'say match {sessionID}', ends: 'when it is empty' },
  { name: 'tf2', players: named, ends: 'when it is empty' },
  { name: 'unity', players: unnamed, ends: { print: '[Arena] Match over: ben wins' } },
  { name: 'web', players: named, told: 'session {sessionID} began', ends: { print: 'session 1 ended' } },
  {
    name: 'factorio',
    prints:
      '   0.578 Info ServerMultiplayerManager.cpp:808: updateTick(926) changing state from(CreatingGame) to(InGame)',
    told: 'match {sessionID}',
    ends: 'by a call',
  },
  { name: 'plain', ends: 'by exit' },
  { name: 'on-demand', starts: true, ends: 'by exit' },
  { name: 'warm', starts: true, ends: 'by exit' },
]

/** The programs that are in an image, in place of which a script has the effect that the game would see. */
const programs = {
  'mc-health': 'exit 0',
  'rcon-cli': `cd "$PF_SHARED_CONTENT_FOLDER" && printf '{"sessionID":"%s"}' "$1" >new && mv new session.json`,
}

async function folderOfPrograms(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'gamekeeper-recipes-'))
  onTestFinished(() => rm(folder, { recursive: true }))
  for (const [name, script] of Object.entries(programs))
    await writeFile(join(folder, name), `#!/bin/sh\n${script}\n`, { mode: 0o755 })
  return folder
}

const page = 'docs/guides/games-without-sdk.md'
const builds: readonly GameServerBuildInput[] = blocks(page, 'yaml').map((text) => parse(text))
/** The script at the end of the last recipe, in the place of its own. */
const warm: readonly GameServerBuildInput[] = builds
  .filter(({ metadata }) => metadata.name === 'on-demand')
  .map(({ spec }) => {
    const run = { ...spec.run, command: ['sh', '-c', blocks(page, 'text').join('\n'), '$(PORT_7777)'] }
    return parse(JSON.stringify({ metadata: { name: 'warm' }, spec: { ...spec, buildID: 'warm', run } }))
  })

it('each recipe of the page is a build as it stands, and simulated games get sessions as always', async () => {
  expect([...builds, ...warm].map(({ metadata }) => metadata.name)).toEqual(recipes.map(({ name }) => name))
  const fleet = await createFleet({ backend: memoryBackend() })
  onTestFinished(() => fleet.close())
  for (const build of builds) {
    await fleet.builds.create(build)
    await fleet.allocate({ buildID: build.spec.buildID, sessionID: randomUUID() }, { waitMs: 10_000, confirm: true })
  }
})

it('each recipe of the page becomes ready, learns of its session, shows who plays, and ends as it says', async () => {
  const place = await workplace()
  const folder = await folderOfPrograms()
  const ends: EventOf<'SessionEnded'>[] = []
  const fleet = await ownFleet(place, {
    portRange: portRange('without-sdk-recipes'),
    on: { SessionEnded: (event) => void ends.push(event) },
  })
  await Promise.all(
    [...builds, ...warm].map(async (build, index) => {
      const recipe = recipes[index]
      if (recipe) await play(fleet, withGame(build, folder, recipe.starts), recipe, ends)
    }),
  )
}, 400_000)

async function play(
  fleet: Fleet,
  build: GameServerBuildInput,
  { name, prints, players, starts, told, ends: end }: Recipe,
  ends: readonly EventOf<'SessionEnded'>[],
) {
  await fleet.builds.apply(build)
  const ref = await until(`${name} has a server`, async () => {
    const [server] = await serversOf(fleet, name)
    return server && server.status.state !== 'Pending' && server.metadata.name
  })
  const say = (line: string) => fleet.servers.writeStdin(ref, line)
  const log = () => linesOf(fleet, ref)
  if (prints !== undefined) {
    await until(`${name} runs`, async () => (await log()).some((line) => line.startsWith('ready ')))
    expect((await serversOf(fleet, name))[0]?.status.state).toBe('Initializing')
    // A line that is no command of the game is printed.
    await say(prints)
  }
  const sessionID = randomUUID()
  const { buildID } = build.spec
  const request = { buildID, sessionID, initialPlayers: ['amie', 'ben'] }
  await fleet.allocate(request, { waitMs: 60_000, confirm: true })
  expect((await serversOf(fleet, name)).find(({ status }) => status.sessionID === sessionID)?.metadata.name).toBe(ref)
  if (starts) await until(`${name} starts`, async () => (await log()).includes(`match ${sessionID}`))
  if (told !== undefined) {
    const line = told.replace('{sessionID}', sessionID)
    await until(`${name} was told`, async () => (await log()).some((each) => each.endsWith(line)))
  }
  await say('players amie ben')
  if (players !== undefined) {
    await until(
      `the players of ${name} are seen`,
      async () => (await fleet.details.get(ref)).spec.connectedPlayers.join() === players,
    )
  }
  if (end === 'when it is empty') await say('players')
  else if (end === 'by exit') await say('exit 0')
  else if (end === 'by a call') await fleet.sessions.end(sessionID)
  else await say(end.print)
  const { reason } = await until(`the session of ${name} is over`, () =>
    ends.find((event) => event.sessionID === sessionID),
  )
  expect({ name, reason }).toEqual({ name, reason: end === 'by a call' ? 'Ended' : 'Finished' })
  await fleet.builds.delete(name)
}

/** Its own game, which listens where the recipe asks, is replaced. Times are shorter, and lines on stdin are how the test steers the game. */
function withGame(
  { metadata, spec }: GameServerBuildInput,
  programFolder: string,
  starts = false,
): GameServerBuildInput {
  const { game, run } = spec
  if (!game || !run) throw new Error('a recipe has run and game')
  const { readiness, players, end } = game
  const { command: script = [] } = run
  const query = players?.query ?? readiness.query
  const protocol = query?.protocol ?? (players?.http ? 'http' : readiness.tcp ? 'minecraft' : 'a2s')
  expect([...queryProtocols, 'http']).toContain(protocol)
  const port = query?.port ?? run.ports?.[0]?.port
  return {
    metadata,
    spec: {
      ...spec,
      standingBy: 1,
      max: 1,
      run: {
        ...run,
        ...(starts
          ? {
              command: script.map((arg) => arg.replaceAll('./arena-server', `node ${program} --protocol ${protocol}`)),
            }
          : {
              command: ['node', program, '--protocol', protocol, '--port', `$(PORT_${port})`],
              args: ['--session-file', '$(PF_SHARED_CONTENT_FOLDER)/session.json'],
              env: { ...run.env, PATH: `${programFolder}:${process.env['PATH']}` },
            }),
        stdin: true,
      },
      game: {
        ...game,
        periodSeconds: 1,
        ...(readiness.runningSeconds !== undefined && { readiness: { runningSeconds: 1 } }),
        ...(end?.emptySeconds !== undefined && { end: { ...end, emptySeconds: 1 } }),
      },
    },
  }
}

async function serversOf(fleet: Fleet, build: string) {
  return (await fleet.servers.list()).filter(
    ({ metadata }) => metadata.name.startsWith(`${build}-`) && metadata.name.length === build.length + 6,
  )
}

async function linesOf(fleet: Fleet, name: string): Promise<readonly string[]> {
  const lines = []
  for await (const line of fleet.servers.logs(name)) lines.push(line)
  return lines
}
