/** `gamekeeper status`: what is wrong, and then what there is. */
import type { Command } from 'commander'
import type { FleetProblem, GameServer } from '../../client/index.js'
import { FleetError } from '../../contracts/errors.js'
import { oneLine } from '../../server/log.js'
import { exitCodes } from '../failures.js'
import { argumentOf } from '../client.js'
import { addSourceOptions, needsHost, type Source, type SourceFlags, sourceOf } from '../stored-fleet.js'
import { keepShowing } from './get.js'
import type { Terminal } from '../terminal.js'

interface StatusFlags extends SourceFlags {
  readonly watch?: boolean
}

export function addStatus(program: Command, terminal: Terminal): void {
  const command = program
    .command('status')
    .description('Say what is wrong with a fleet, and count what it has. Exit code 1: something is wrong.')
    .option('-w, --watch', 'Go on, and show what changes: in place on a terminal, else all of it again after a change.')
  addSourceOptions(command).action(async (flags: StatusFlags) => {
    const { fleet, client, where } = await sourceOf(terminal, flags)
    if (flags.watch && !client) throw needsHost('--watch', flags)
    const isPainted = flags.watch && !flags.json && terminal.size() !== undefined
    let last: readonly string[] = []
    const show = async () => {
      const status = await statusOf(fleet)
      const lines = flags.json ? [jsonOf(status, where)] : linesOf(terminal, status, where.url ?? where.dataDir ?? '')
      if (isPainted) terminal.repaint(lines)
      else if (lines.join('\n') !== last.join('\n')) for (const line of lines) terminal.print(line)
      last = lines
      return status
    }
    const stale = (note: string) =>
      isPainted ? terminal.repaint([...last, terminal.paint('red', note)]) : terminal.note(note)
    if (flags.watch && client)
      return keepShowing(client, terminal.untilReaderGone(), { show: async () => void (await show()), stale })
    const { problems } = await show()
    // A drain is deliberate, not a failure.
    if (problems.some(({ severity }) => severity !== 'drained')) terminal.exitWith(exitCodes.failed)
  })
}

interface Status {
  readonly ready: boolean
  readonly problems: readonly FleetProblem[]
  readonly builds: number
  readonly servers: Readonly<Record<string, number>>
}

async function statusOf(fleet: Source['fleet']): Promise<Status> {
  const { ready, leads } = await fleet.health()
  const [problems, builds, servers] = await Promise.all([
    fleet.problems(),
    orNone(fleet.builds.list(), leads),
    orNone(fleet.servers.list(), leads),
  ])
  return { ready, problems, builds: builds.length, servers: countsOf(servers) }
}

function jsonOf(status: Status, where: Source['where']): string {
  return JSON.stringify({ ...where, ...status })
}

function linesOf(terminal: Terminal, { problems, builds, servers }: Status, where: string): readonly string[] {
  const counts = Object.entries(servers).map(([state, count]) => `${count} ${state}`)
  return [
    ...problems.flatMap((problem) => problemLines(terminal, problem)),
    ...(problems.length === 0 ? [terminal.paint('green', 'nothing is wrong')] : []),
    `${where}: builds: ${builds}; servers: ${counts.join(', ') || 'none'}`,
  ]
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

function problemLines(
  terminal: Terminal,
  { severity, title, cause, action, since, server }: FleetProblem,
): readonly string[] {
  const began = since === undefined ? '' : ` (since ${new Date(since).toISOString()})`
  return [
    `${terminal.paint(colors[severity], '!')} ${oneLine(title)}${began}`,
    ...(cause === undefined ? [] : [`    ${oneLine(cause)}`]),
    `    ${action}`,
    ...(server ? [`    Next: gamekeeper explain ${argumentOf(server)}`] : []),
  ]
}

function countsOf(servers: readonly GameServer[]): Readonly<Record<string, number>> {
  const counts: Record<string, number> = {}
  for (const { status } of servers) counts[status.state] = (counts[status.state] ?? 0) + 1
  return counts
}
