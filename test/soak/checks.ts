/** Compares the fleet with the expected state: continuously, whenever the fleet has settled, and at the end. */
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import type { GameServer, GameServerBuild } from 'gamekeeper'
import { isAlive } from '../../src/platform/process-identity.js'
import { backend, namesOfContainers } from '../e2e/backend.js'
import { listBuilds, listServers, recount } from '../e2e/client.js'
import { type Build, type ExpectedState, serversOf } from './expected-state.js'
import { fdsByKind, openPorts, runningIn } from './machine.js'
import { answered, count, oneOf, type SoakContext } from './context.js'
import { checkGame } from './sessions.js'

const intervalMs = 500

/** Checks the fleet until `stop` is aborted. */
export async function watch(context: SoakContext, stop: AbortSignal): Promise<void> {
  while (!stop.aborted) {
    const { allocated } = context.expected.before()
    await checkOnce(context)
    const unconfirmed = allocated.filter(({ isConfirmed }) => !isConfirmed).slice(0, 3)
    const some = [...unconfirmed, oneOf(context, allocated), oneOf(context, allocated)].filter(
      (session) => session !== undefined,
    )
    await Promise.all(some.map((session) => checkGame(context, session)))
    await pause(intervalMs)
  }
}

/** Checks all sessions, for example after a restart. */
export async function checkAll(context: SoakContext): Promise<void> {
  await checkOnce(context)
  await Promise.all(context.expected.allocated().map((session) => checkGame(context, session)))
}

async function checkOnce(context: SoakContext): Promise<void> {
  const { hosts, expected, dataDir } = context
  const before = expected.before()
  const { apis } = hosts
  if (apis) {
    try {
      const servers = await listServers(apis)
      expected.check(servers, before)
      hosts.sample(servers.length, false)
      count(context, 'lists checked')
    } catch {
      // The host was stopped meanwhile. If it is running but does not answer, other calls detect that.
    }
  }
  for (const session of before.allocated) {
    if (session.state !== 'allocated' || !session.game || isAlive(session.game)) continue
    expected.violate(`the game of session ${session.sessionID} on ${session.server}, ${session.game.pid}, has ended`)
    expected.end(session)
  }
  for (const [server, games] of runningIn(dataDir).games) {
    if (games.length > 1)
      expected.violate(`${server} runs ${games.length} times: ${games.map(({ pid }) => pid).join(', ')}`)
  }
}

/** Maximum time to settle: longer than the maximum back-off, with a margin for a busy machine. */
const settleLimitMs = 180_000

/** Waits until the host and the machine are in the expected state. Call only while no action is in progress. */
export async function settle(context: SoakContext): Promise<void> {
  const { expected, hosts, signal } = context
  const deadline = performance.now() + settleLimitMs
  for (;;) {
    if (signal.aborted) return
    const difference = await differenceIn(context)
    if (difference === undefined) break
    if (performance.now() > deadline)
      return expected.violate(`not settled after ${settleLimitMs / 1000} s: ${difference}`)
    await pause(200)
  }
  const servers = await answered(context, listServers)
  hosts.sample(servers.length, true)
  count(context, 'times settled')
  checkFds(context)
}

async function differenceIn(context: SoakContext): Promise<string | undefined> {
  const { expected, dataDir } = context
  const [builds, servers] = await Promise.all([answered(context, listBuilds), answered(context, listServers)])
  if (builds.length !== expected.builds.size)
    return `there are ${builds.length} builds, expected ${expected.builds.size}`
  for (const build of expected.builds.values()) {
    const shown = builds.find(({ metadata }) => metadata.name === build.name)
    const difference = shown ? buildDifference(expected, build, shown, servers) : `${build.name} is missing`
    if (difference !== undefined) return difference
  }
  const ending = servers.filter(({ status }) => status.state === 'Terminating').length
  if (ending > 0) return `${ending} servers are Terminating`
  const { games, supervisors, all } = runningIn(dataDir)
  const names = servers.map(({ metadata }) => metadata.name).toSorted()
  const orphaned = expected.allocated().flatMap((session) => (session.isOrphaned ? [session.server] : []))
  const supervised = names.filter((name) => !orphaned.includes(name))
  const difference =
    differ('games', [...games.keys()], names) ?? differ('supervisors', [...supervisors.keys()], supervised)
  if (difference !== undefined) return difference
  const instances = (await instancesIn(dataDir)).length
  if (instances !== servers.length)
    return `${instances} ${backend === 'docker' ? 'containers' : 'directories'} for ${servers.length} servers`
  const rest = all.length - games.size - supervisors.size
  // Two other processes are expected: the host and the TypeScript loader that started it.
  return rest > 2 ? `${rest} processes that are not game servers` : undefined
}

function differ(what: string, running: readonly string[], expected: readonly string[]): string | undefined {
  const [have, want] = [running.toSorted().join(' '), expected.join(' ')]
  return have === want
    ? undefined
    : `the ${what} of ${have || 'no server'} are running, expected ${want || 'no server'}`
}

function buildDifference(
  state: ExpectedState,
  build: Build,
  { spec, status }: GameServerBuild,
  listed: readonly GameServer[],
): string | undefined {
  const servers = serversOf(build, listed)
  const { Pending, Initializing, StandingBy = 0, Active = 0, Terminating } = recount(servers)
  const allocated = state.allocated().filter((session) => session.build === build).length
  const expected = {
    spec: { standingBy: build.standingBy, max: build.max },
    counts: { Pending: 0, Initializing: 0, Terminating: 0, Active: allocated },
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
    : `${build.name} is ${have}, expected ${want}; ${JSON.stringify(status.conditions ?? [])}`
}

/** By how much the number of open files may grow during a run, not counting one per server. */
const fdsAllowed = 24

function checkFds({ hosts, expected }: SoakContext): void {
  const own = hosts.samples().flatMap(({ settled, fds, servers }) => (settled ? [fds - servers] : []))
  const [first, last] = [own[0], own.at(-1)]
  if (first === undefined || last === undefined || last - first <= fdsAllowed) return
  expected.violate(`the number of open files grew by ${last - first}: ${JSON.stringify(fdsByKind(hosts.pid ?? 0))}`)
}

/** Returns the processes, ports and files that remain after the last host has exited. */
export async function leftovers(
  { dataDir, ports }: SoakContext,
  foreign: readonly number[],
): Promise<readonly string[]> {
  const deadline = performance.now() + 20_000
  for (;;) {
    const left = [
      ...runningIn(dataDir).all.map(({ pid }) => `process ${pid} is running`),
      ...openPorts(ports.first, ports.last)
        .filter((port) => !foreign.includes(port))
        .map((port) => `port ${port} is open`),
      ...(await instancesIn(dataDir)).map((name) => `${name} exists`),
      ...(await readdir(dataDir, { recursive: true }))
        .filter((name) => name.endsWith('.tmp'))
        .map((name) => `${name} exists`),
    ]
    if (left.length === 0 || performance.now() > deadline) return left
    await pause(200)
  }
}

/** Returns the instance directories, or on Docker the containers in any state. */
async function instancesIn(dataDir: string): Promise<readonly string[]> {
  if (backend === 'docker') return namesOfContainers(dataDir)
  return (await readdir(join(dataDir, 'instances'))).map((name) => `instances/${name}`)
}
