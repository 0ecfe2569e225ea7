/** `gamekeeper status`: what is wrong, and then what there is. */
import type { Command } from 'commander'
import type { GameServer, GameServerBuild } from '../../client/index.js'
import { FleetError } from '../../contracts/errors.js'
import { oneLine } from '../../server/log.js'
import { exitCodes } from '../failures.js'
import { addSourceOptions, type SourceFlags, sourceOf } from '../stored-fleet.js'
import type { Terminal } from '../terminal.js'
import { counted } from '../../rules/validation/problem.js'

export function addStatus(program: Command, terminal: Terminal): void {
  const command = program
    .command('status')
    .description('Say what is wrong with a fleet, and count what it has. Exit code 1: something is wrong.')
  addSourceOptions(command).action(async (flags: SourceFlags) => {
    const { fleet, where } = await sourceOf(terminal, flags)
    const health = await fleet.health()
    const [builds, servers] = await Promise.all([
      orNone(fleet.builds.list(), health.leads),
      orNone(fleet.servers.list(), health.leads),
    ])
    const problems = [...health.problems, ...builds.flatMap(problemsOfBuild), ...servers.flatMap(problemsOfServer)]
    const states = countsOf(servers)
    if (flags.json)
      terminal.print(
        JSON.stringify({ ...where, ready: health.ready, problems, builds: builds.length, servers: states }),
      )
    else {
      for (const problem of problems) terminal.print(`${terminal.paint('red', '!')} ${oneLine(problem)}`)
      if (problems.length === 0) terminal.print(terminal.paint('green', 'nothing is wrong'))
      const shown = Object.entries(states).map(([state, count]) => `${count} ${state}`)
      terminal.print(`${where.url ?? where.dataDir}: builds: ${builds.length}; servers: ${shown.join(', ') || 'none'}`)
    }
    if (problems.length > 0) terminal.exitWith(exitCodes.failed)
  })
}

/** A host that does not lead has no lists; its health says so. */
async function orNone<T>(list: Promise<readonly T[]>, leads: boolean): Promise<readonly T[]> {
  try {
    return await list
  } catch (error) {
    if (!leads && FleetError.is(error, 'not-leader')) return []
    throw error
  }
}

function problemsOfBuild({ metadata, spec, status }: GameServerBuild): readonly string[] {
  const conditions = (status.conditions ?? []).map(
    ({ type, message }) => `build ${metadata.name} is ${type}: ${message}`,
  )
  const unhealthy = `build ${metadata.name} is Unhealthy after ${counted(status.crashesCount, 'crash', 'crashes')}; it gets no new servers until crashesToMarkUnhealthy is raised or the build is created again`
  const full = status.currentActive >= spec.max && spec.max > 0
  return [
    ...(status.health === 'Unhealthy' ? [unhealthy] : []),
    ...conditions,
    ...(full
      ? [
          `build ${metadata.name} is full: ${counted(status.currentActive, 'match', 'matches')}, max ${spec.max}; scale it up`,
        ]
      : []),
  ]
}

function problemsOfServer({ metadata, status }: GameServer): readonly string[] {
  if (status.health === 'Unhealthy')
    return [`server ${metadata.name} is Unhealthy: gamekeeper explain ${metadata.name}`]
  const stuck = status.state === 'Pending' && status.message !== undefined
  return stuck ? [`server ${metadata.name} is Pending: ${status.message}`] : []
}

function countsOf(servers: readonly GameServer[]): Readonly<Record<string, number>> {
  const counts: Record<string, number> = {}
  for (const { status } of servers) counts[status.state] = (counts[status.state] ?? 0) + 1
  return counts
}
