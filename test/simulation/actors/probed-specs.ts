/** Random specs of games without an SDK, with short times. */
import type { GameSpec, NetworkProbe, ReadinessProbe } from '../../../src/rules/game/probes.js'
import type { BuildSpec } from '../../../src/rules/model/resources.js'
import type { World } from '../world/world.js'

/** The line that tells a game of its session. */
const sessionLine = 'session {sessionID} for {players}'

/** Whether the games of this build start with their sessions. */
export function startsWithSession(world: World, name: string): boolean {
  return name === 'arena' && world.probedBuilds.includes(name)
}

/** Whether the games of this build say in their logs when they are ready and when their match is over. */
export function endsByLog(world: World, name: string): boolean {
  return world.probedBuilds.length === 1 && world.probedBuilds.includes(name)
}

/** What a build of games without an SDK has, or nothing for other builds. */
export function someProbes(world: World, name: string): Pick<BuildSpec, 'sdk' | 'game'> {
  if (!world.probedBuilds.includes(name)) return {}
  const liveness: NetworkProbe | undefined = world.chance(0.3) ? { tcp: {} } : undefined
  const startsGame = startsWithSession(world, name)
  const readsLog = endsByLog(world, name)
  const own: ReadinessProbe = readsLog ? { log: 'Done (*)!' } : startsGame ? { tcp: {} } : { runningSeconds: 3 }
  const game: GameSpec = {
    readiness: world.oneOf<ReadinessProbe>([{ query: { protocol: 'a2s' } }, { tcp: {} }, own]) ?? {},
    players: world.chance(0.7) ? { query: { protocol: 'a2s' } } : { http: { path: '/', field: 'players' } },
    ...(liveness && { liveness }),
    session: { stdin: sessionLine, ...(startsGame && { startsGame }) },
    ...someEnd(world, readsLog),
    periodSeconds: world.between(1, 4),
    timeoutSeconds: world.between(1, 2),
    failureThreshold: world.between(1, 4),
  }
  return { sdk: 'none', game }
}

/** The session that a line names, or undefined. */
export function sessionInLine(line: string): string | undefined {
  return /^session (\S+) for [^\n]*\n$/.exec(line)?.[1]
}

function someEnd(world: World, readsLog: boolean): Pick<GameSpec, 'end'> {
  const end = {
    ...(world.chance(0.85) && { emptySeconds: world.between(3, 30) }),
    ...(readsLog && { log: 'match over, *' }),
  }
  return Object.keys(end).length > 0 ? { end } : {}
}
