/** `gamekeeper explain`, `logs` and `events`: what happened, and why. */
import type { Command } from 'commander'
import { checkEventType } from '../../contracts/events.js'
import { oneLine } from '../../server/log.js'
import type { GameServer, GameServerBuild, RefLike } from '../../client/index.js'
import type { ServerHistory } from '../../contracts/fleet.js'
import { standingByOf } from '../../rules/model/build-status.js'
import { FleetError, messageOf } from '../../contracts/errors.js'
import { addClientOptions, argumentOf, type ClientFlags, commandTarget } from '../client.js'
import { wholeNumber } from '../flags.js'
import { CommandLineError } from '../../config/usage-error.js'
import { addSourceOptions, needsHost, sessionNamed, type Source, type SourceFlags, sourceOf } from '../stored-fleet.js'
import type { Terminal } from '../terminal.js'

export function addInspection(program: Command, terminal: Terminal): void {
  addExplain(program, terminal)
  addLogs(program, terminal)
  addEvents(program, terminal)
}

function addExplain(program: Command, terminal: Terminal): void {
  const command = program
    .command('explain')
    .description(
      'Explain why a server is in its state, or why it ended, or how many servers a build keeps ready and why.',
    )
    .argument('<server>', 'Name of the server, which may have ended, or of a build.')
  addSourceOptions(command).action(async (server: string, flags: SourceFlags) => {
    const { fleet, client, ref } = await sourceOf(terminal, flags)
    const history = await historyOf(fleet, ref(server))
    if ('spec' in history) {
      if (flags.json) return terminal.print(JSON.stringify(history))
      for (const line of buildLines(history)) terminal.print(oneLine(line))
      return
    }
    if (flags.json) return terminal.print(JSON.stringify(history))
    const { state, health, message } = history.server?.status ?? {}
    const now =
      state === undefined ? 'has ended' : `is ${state}, health ${health}${message === undefined ? '' : `: ${message}`}`
    terminal.print(terminal.paint('bold', oneLine(`${server} ${now}`)))
    for (const line of history.text.split('\n')) if (line !== '') terminal.print(oneLine(line))
    const lines = await lastLines(fleet, ref(server))
    if (lines.length > 0) terminal.print(terminal.paint('bold', 'Last lines of its log:'))
    for (const line of lines) terminal.print(`  ${line}`)
    const next = nextStep(history.server?.status, argumentOf(ref(server)), lines.length > 0, client !== undefined)
    if (next !== undefined) terminal.print(`Next: ${next}`)
  })
}

/** Of the server, or else the build of this name. Throws `not-found`. */
async function historyOf(fleet: Source['fleet'], ref: RefLike): Promise<ServerHistory | GameServerBuild> {
  try {
    return await fleet.explain(ref)
  } catch (error) {
    if (!FleetError.is(error, 'not-found')) throw error
    return fleet.builds.get(ref).catch(() => {
      throw error
    })
  }
}

/** What a build has and wants, and why. */
function buildLines(build: GameServerBuild): readonly string[] {
  const { metadata, spec, status } = build
  const { conditions = [], scaling } = status
  const wanted = `${status.currentStandingBy} of ${standingByOf(build)} ready`
  const decided = scaling
    ? `it keeps ${scaling.standingBy} ready, as ${scaling.decider} decides: ${scaling.message}`
    : `it keeps ${spec.standingBy} ready, as its spec says`
  return [
    `${metadata.name} is ${status.health}: ${wanted}, ${status.currentActive} Active, at most ${spec.max}`,
    decided,
    ...conditions.map(({ type, message, lastTransitionTime }) => `${type} since ${lastTransitionTime}: ${message}`),
  ]
}

const shownLines = 10

/** Empty if there are none, or the log of a server that has ended is gone, or may not be read. */
async function lastLines(fleet: Source['fleet'], server: RefLike): Promise<readonly string[]> {
  const lines: string[] = []
  try {
    for await (const line of fleet.servers.logs(server, { tail: shownLines })) lines.push(line)
  } catch (error) {
    if (!FleetError.is(error)) throw error
  }
  return lines
}

/** What to type next, if there is something. Pure. */
function nextStep(
  status: GameServer['status'] | undefined,
  server: string,
  hasLog: boolean,
  hasHost: boolean,
): string | undefined {
  if (!hasHost) return hasLog ? `gamekeeper logs ${server}` : undefined
  switch (status?.state) {
    case 'Pending':
    case 'Initializing':
      return hasLog ? `gamekeeper logs ${server} --follow` : 'gamekeeper status'
    case 'StandingBy':
      return status.health === 'Unhealthy' ? `gamekeeper delete server ${server}` : undefined
    case 'Active':
      return `gamekeeper get session ${status.sessionID ?? ''}`
    case 'Terminating':
    case undefined:
      return hasLog ? `gamekeeper logs ${server}` : 'gamekeeper status'
  }
}

interface LogsFlags extends SourceFlags {
  readonly session?: string
  readonly origin?: boolean
  readonly follow?: boolean
  readonly tail?: number
}

function addLogs(program: Command, terminal: Terminal): void {
  const command = program
    .command('logs')
    .description('Print what the game of a server has printed.')
    .argument('[server]', 'Name of the server, which may have ended.')
    .option('--session <id>', 'Of the server of this session instead. Its first 6 characters are enough.')
    .option('-f, --follow', 'Go on until the server ends.')
    .option('--origin', 'Begin each line with its time and with stdout or stderr, as far as the backend knows them.')
    .option('--tail <lines>', 'Only the last lines.', wholeNumber(0, 1_000_000))
  addSourceOptions(command).action(async (name: string | undefined, flags: LogsFlags) => {
    const { follow = false, origin = false, tail, session } = flags
    if ((name === undefined) === (session === undefined))
      throw new CommandLineError('logs needs either the name of a server or --session')
    const { client, fleet, ref } = await sourceOf(terminal, flags)
    const server = session === undefined ? ref(name ?? '') : (await sessionNamed(fleet, session)).server
    if (follow && !client) throw needsHost('--follow', flags)
    const signal = follow ? terminal.untilReaderGone() : terminal.interruption()
    const lines = fleet.servers.logs(server, { follow, origin, signal, ...(tail !== undefined && { tail }) })
    for await (const line of lines) terminal.print(flags.json ? JSON.stringify({ line }) : line)
  })
}

interface EventsFlags extends ClientFlags {
  readonly from?: number
  readonly type?: readonly string[]
  readonly limit?: number
}

function addEvents(program: Command, terminal: Terminal): void {
  const command = program
    .command('events')
    .description('Print events as they happen, until Ctrl-C.')
    .option('--from <number>', 'Begin with this event of the log. 1: with the oldest.', wholeNumber(1, 999_999_999))
    .option('--type <type...>', 'Only events of these types.')
    .option('--limit <number>', 'End after this many.', wholeNumber(1, 999_999_999))
  addClientOptions(command).action(async (flags: EventsFlags) => {
    const { client } = await commandTarget(terminal, flags)
    const { from, type: types, limit = Infinity } = flags
    for (const type of types ?? []) {
      try {
        checkEventType('--type', type)
      } catch (error) {
        throw new CommandLineError(messageOf(error), { cause: error })
      }
    }
    const signal = terminal.untilReaderGone()
    // Reading events reconnects silently, so a server that cannot be reached is reported here.
    await client.stats({ signal })
    let printed = 0
    for await (const event of client.events({ signal, ...(from !== undefined && { from }) })) {
      if (types !== undefined && !types.includes(event.type)) continue
      const time = terminal.paint('dim', 'at' in event ? new Date(event.at).toISOString() : '')
      terminal.print(flags.json ? JSON.stringify(event) : `${time} ${event.type}: ${oneLine(event.message)}`)
      if (++printed >= limit) return
    }
  })
}
