/** Holds the fleet to the ledger: all the time, when it has come to rest, and when it is over. */
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import type { GameServer, GameServerBuild } from 'gamekeeper'
import { isAlive } from '../../src/platform/process-identity.js'
import { backend, namesOfContainers } from '../e2e/backend.js'
import { listBuilds, listServers, recount } from '../e2e/client.js'
import { type Build, type Ledger, serversOf } from './ledger.js'
import { fdsByKind, openPorts, runningIn } from './machine.js'
import { answered, count, oneOf, type Scene } from './scene.js'
import { hello } from './sessions.js'

const everyMs = 500

/** Looks until it is told to stop. */
export async function watch(scene: Scene, stop: AbortSignal): Promise<void> {
  while (!stop.aborted) {
    const { held } = scene.ledger.before()
    await lookOnce(scene)
    const young = held.filter(({ known }) => !known).slice(0, 3)
    const some = [...young, oneOf(scene, held), oneOf(scene, held)].filter((session) => session !== undefined)
    await Promise.all(some.map((session) => hello(scene, session)))
    await pause(everyMs)
  }
}

/** Every session, from every side. To be done after a restart. */
export async function lookAtAll(scene: Scene): Promise<void> {
  await lookOnce(scene)
  await Promise.all(scene.ledger.held().map((session) => hello(scene, session)))
}

async function lookOnce(scene: Scene): Promise<void> {
  const { hosts, ledger, dataDir } = scene
  const before = ledger.before()
  const { apis } = hosts
  if (apis) {
    try {
      const servers = await listServers(apis)
      ledger.judge(servers, before)
      hosts.sample(servers.length, false)
      count(scene, 'lists judged')
    } catch {
      // The host was ended meanwhile; one that is there and does not answer is found by whoever calls it.
    }
  }
  for (const session of before.held) {
    if (session.state !== 'held' || !session.game || isAlive(session.game)) continue
    ledger.breach(`the game of session ${session.sessionID} on ${session.server}, ${session.game.pid}, has ended`)
    ledger.end(session)
  }
  for (const [server, games] of runningIn(dataDir).games) {
    if (games.length > 1)
      ledger.breach(`${server} runs ${games.length} times: ${games.map(({ pid }) => pid).join(', ')}`)
  }
}

/** Long enough for the longest pause after crashes, and a busy machine. */
const settleLimitMs = 180_000

/** Waits until nothing is left to do, and compares all that the host and the machine say. Nobody may act meanwhile. */
export async function settle(scene: Scene): Promise<void> {
  const { ledger, hosts, signal } = scene
  const deadline = performance.now() + settleLimitMs
  for (;;) {
    if (signal.aborted) return
    const wrong = await unsettled(scene)
    if (wrong === undefined) break
    if (performance.now() > deadline) return ledger.breach(`not settled after ${settleLimitMs / 1000} s: ${wrong}`)
    await pause(200)
  }
  const servers = await answered(scene, listServers)
  hosts.sample(servers.length, true)
  count(scene, 'times settled and recounted')
  judgeFds(scene)
}

async function unsettled(scene: Scene): Promise<string | undefined> {
  const { ledger, dataDir } = scene
  const [builds, servers] = await Promise.all([answered(scene, listBuilds), answered(scene, listServers)])
  if (builds.length !== ledger.builds.size) return `there are ${builds.length} builds, not ${ledger.builds.size}`
  for (const build of ledger.builds.values()) {
    const shown = builds.find(({ metadata }) => metadata.name === build.name)
    const wrong = shown ? wrongIn(ledger, build, shown, servers) : `${build.name} is not there`
    if (wrong !== undefined) return wrong
  }
  const ending = servers.filter(({ status }) => status.state === 'Terminating').length
  if (ending > 0) return `${ending} servers are ending`
  const { games, supervisors, all } = runningIn(dataDir)
  const names = servers.map(({ metadata }) => metadata.name).toSorted()
  const orphaned = ledger.held().flatMap((session) => (session.orphaned ? [session.server] : []))
  const supervised = names.filter((name) => !orphaned.includes(name))
  const wrong = differ('games', [...games.keys()], names) ?? differ('supervisors', [...supervisors.keys()], supervised)
  if (wrong !== undefined) return wrong
  const kept = (await keptIn(dataDir)).length
  if (kept !== servers.length)
    return `${kept} ${backend === 'docker' ? 'containers' : 'directories'} for ${servers.length} servers`
  const rest = all.length - games.size - supervisors.size
  // Besides the host, the compiler that it has been started with.
  return rest > 2 ? `${rest} processes that are no game servers` : undefined
}

function differ(what: string, running: readonly string[], expected: readonly string[]): string | undefined {
  const [have, want] = [running.toSorted().join(' '), expected.join(' ')]
  return have === want ? undefined : `the ${what} of ${have || 'nobody'} run, and not those of ${want || 'nobody'}`
}

function wrongIn(
  ledger: Ledger,
  build: Build,
  { spec, status }: GameServerBuild,
  listed: readonly GameServer[],
): string | undefined {
  const servers = serversOf(build, listed)
  const { Pending, Initializing, StandingBy = 0, Active = 0, Terminating } = recount(servers)
  const held = ledger.held().filter((session) => session.build === build).length
  const expected = {
    spec: { standingBy: build.standingBy, max: build.max },
    counts: { Pending: 0, Initializing: 0, Terminating: 0, Active: held },
    idle: Math.min(build.standingBy, Math.max(0, build.max - Active)),
    status: { Pending, Initializing, StandingBy, Active, ready: `${StandingBy}/${spec.standingBy}` },
  }
  const found = {
    spec: { standingBy: spec.standingBy, max: spec.max },
    counts: { Pending, Initializing, Terminating, Active },
    idle: StandingBy,
    status: {
      Pending: status.currentPending,
      Initializing: status.currentInitializing,
      StandingBy: status.currentStandingBy,
      Active: status.currentActive,
      ready: status.currentStandingByReadyDesired,
    },
  }
  const [want, have] = [JSON.stringify(expected), JSON.stringify(found)]
  return want === have
    ? undefined
    : `${build.name} is ${have} and not ${want}; ${JSON.stringify(status.conditions ?? [])}`
}

/** Each server holds one connection; what comes on top of that must not grow over a life. */
const fdsAllowed = 24

function judgeFds({ hosts, ledger }: Scene): void {
  const own = hosts.samples().flatMap(({ settled, fds, servers }) => (settled ? [fds - servers] : []))
  const [first, last] = [own[0], own.at(-1)]
  if (first === undefined || last === undefined || last - first <= fdsAllowed) return
  ledger.breach(`the host has ${last - first} more files open: ${JSON.stringify(fdsByKind(hosts.pid ?? 0))}`)
}

/** Nobody and nothing must be left once the host has ended. */
export async function leftovers({ dataDir, ports }: Scene, foreign: readonly number[]): Promise<readonly string[]> {
  const deadline = performance.now() + 20_000
  for (;;) {
    const left = [
      ...runningIn(dataDir).all.map(({ pid }) => `process ${pid} runs`),
      ...openPorts(ports.first, ports.last)
        .filter((port) => !foreign.includes(port))
        .map((port) => `port ${port} is open`),
      ...(await keptIn(dataDir)).map((name) => `${name} is there`),
      ...(await readdir(dataDir, { recursive: true }))
        .filter((name) => name.endsWith('.tmp'))
        .map((name) => `${name} is there`),
    ]
    if (left.length === 0 || performance.now() > deadline) return left
    await pause(200)
  }
}

/** What there is of servers besides their processes: directories, or containers in any state. */
async function keptIn(dataDir: string): Promise<readonly string[]> {
  if (backend === 'docker') return namesOfContainers(dataDir)
  return (await readdir(join(dataDir, 'instances'))).map((name) => `instances/${name}`)
}
