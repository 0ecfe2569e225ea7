/** `gamekeeper status`: what is wrong, and then what there is. */
import type { Command } from 'commander'
import type { FleetProblem, GameServer } from '../../client/index.js'
import { FleetError } from '../../contracts/errors.js'
import { oneLine } from '../../server/log.js'
import { exitCodes } from '../failures.js'
import { addSourceOptions, type SourceFlags, sourceOf } from '../stored-fleet.js'
import type { Terminal } from '../terminal.js'

export function addStatus(program: Command, terminal: Terminal): void {
  const command = program
    .command('status')
    .description('Say what is wrong with a fleet, and count what it has. Exit code 1: something is wrong.')
  addSourceOptions(command).action(async (flags: SourceFlags) => {
    const { fleet, where } = await sourceOf(terminal, flags)
    const health = await fleet.health()
    const [problems, builds, servers] = await Promise.all([
      fleet.problems(),
      orNone(fleet.builds.list(), health.leads),
      orNone(fleet.servers.list(), health.leads),
    ])
    const states = countsOf(servers)
    if (flags.json)
      terminal.print(
        JSON.stringify({ ...where, ready: health.ready, problems, builds: builds.length, servers: states }),
      )
    else {
      for (const problem of problems) printProblem(terminal, problem)
      if (problems.length === 0) terminal.print(terminal.paint('green', 'nothing is wrong'))
      const shown = Object.entries(states).map(([state, count]) => `${count} ${state}`)
      terminal.print(`${where.url ?? where.dataDir}: builds: ${builds.length}; servers: ${shown.join(', ') || 'none'}`)
    }
    if (problems.some(({ severity }) => severity !== 'drained')) terminal.exitWith(exitCodes.failed)
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

const colors = { down: 'red', degraded: 'yellow', drained: 'dim' } as const

function printProblem(terminal: Terminal, { severity, title, cause, action, since, server }: FleetProblem): void {
  const began = since === undefined ? '' : ` (since ${new Date(since).toISOString()})`
  terminal.print(`${terminal.paint(colors[severity], '!')} ${oneLine(title)}${began}`)
  if (cause !== undefined) terminal.print(`    ${oneLine(cause)}`)
  terminal.print(`    ${action}`)
  const { namespace, name } = server ?? {}
  if (name !== undefined)
    terminal.print(`    Next: gamekeeper explain ${namespace === 'default' ? name : `${namespace}/${name}`}`)
}

function countsOf(servers: readonly GameServer[]): Readonly<Record<string, number>> {
  const counts: Record<string, number> = {}
  for (const { status } of servers) counts[status.state] = (counts[status.state] ?? 0) + 1
  return counts
}
