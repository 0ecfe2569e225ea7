/** `gamekeeper get`: tables of builds, servers and sessions. */
import { Argument, type Command } from 'commander'
import type { EndedGameSession, FleetClient, GameServer, GameServerBuild, GameSession } from '../../client/index.js'
import { UsageError } from '../../config/usage-error.js'
import { FleetError } from '../../contracts/errors.js'
import { oneLine } from '../../server/log.js'
import { addSourceOptions, needsHost, type Source, type SourceFlags, sourceOf } from '../stored-fleet.js'
import type { Terminal } from '../terminal.js'

interface GetFlags extends SourceFlags {
  readonly build?: string
  readonly player?: string
  readonly watch?: boolean
}

const kinds = ['builds', 'servers', 'sessions'] as const
type Kind = (typeof kinds)[number]

/** One line of a table, and its JSON. */
interface Row {
  readonly key: string
  readonly cells: readonly string[]
  readonly item: object
}

const heads: Readonly<Record<Kind, readonly string[]>> = {
  builds: ['NAMESPACE', 'NAME', 'BUILD ID', 'READY', 'ACTIVE', 'PENDING', 'MAX', 'CRASHES', 'HEALTH', 'AGE'],
  servers: ['NAMESPACE', 'NAME', 'STATE', 'HEALTH', 'ADDRESS', 'PORTS', 'SESSION', 'AGE', 'MESSAGE'],
  sessions: ['SESSION', 'NAMESPACE', 'SERVER', 'STATE', 'ADDRESS', 'PORTS', 'PLAYERS', 'FREE SEATS', 'AGE'],
}

export function addGet(program: Command, terminal: Terminal): void {
  const command = program
    .command('get')
    .description('List builds, servers or sessions.')
    .addArgument(new Argument('<kind>', 'What to list.').choices(kinds))
    .argument('[name]', 'Only this build, server or session.')
    .option('--build <name>', 'Only servers or sessions of this build.')
    .option('--player <id>', 'Only the session that this player is in.')
    .option('-w, --watch', 'Go on, and print what changes.')
  addSourceOptions(command).action(async (kind: Kind, name: string | undefined, flags: GetFlags) => {
    const { build, player } = flags
    if (player !== undefined && (kind !== 'sessions' || name !== undefined || build !== undefined))
      throw new UsageError('--player goes with get sessions, without a session and --build')
    if (build !== undefined && (kind === 'builds' || name !== undefined))
      throw new UsageError('--build goes with get servers and get sessions, without a name')
    const source = await sourceOf(terminal, flags)
    if (flags.watch && !source.client) throw needsHost('--watch', flags)
    const rows = () => rowsOf({ kind, name, build, player }, source)
    const first = await rows()
    if (flags.json && !flags.watch) terminal.print(JSON.stringify(first.map(({ item }) => item)))
    else print(terminal, kind, first, flags.json === true, true)
    if (flags.watch && source.client) await watch(terminal, source.client, kind, first, rows, flags.json === true)
  })
}

function print(terminal: Terminal, kind: Kind, rows: readonly Row[], json: boolean, withHead: boolean): void {
  if (json) return rows.forEach(({ item }) => terminal.print(JSON.stringify(item)))
  const [head = '', ...lines] = tableLines(
    heads[kind],
    rows.map(({ cells }) => cells),
  )
  if (withHead) terminal.print(terminal.paint('bold', head))
  for (const line of lines) terminal.print(line)
  if (withHead && rows.length === 0) terminal.note(`no ${kind}`)
}

/** Lists again after each event, and prints the rows that are new or different. */
async function watch(
  terminal: Terminal,
  client: FleetClient,
  kind: Kind,
  first: readonly Row[],
  rows: () => Promise<readonly Row[]>,
  json: boolean,
): Promise<void> {
  const signal = terminal.untilReaderGone()
  let known = new Map(first.map((row) => [row.key, stable(row)]))
  for await (const event of client.events({ signal })) {
    if (event.type === 'Audited') continue
    const now = await orEmpty(rows())
    print(
      terminal,
      kind,
      now.filter((row) => known.get(row.key) !== stable(row)),
      json,
      false,
    )
    known = new Map(now.map((row) => [row.key, stable(row)]))
  }
}

/** What is watched by name may end, and come again. */
async function orEmpty(rows: Promise<readonly Row[]>): Promise<readonly Row[]> {
  try {
    return await rows
  } catch (error) {
    if (FleetError.is(error, 'not-found')) return []
    throw error
  }
}

/** Differs if anything but the age does. */
function stable({ item }: Row): string {
  return JSON.stringify(item)
}

interface Wanted {
  readonly kind: Kind
  readonly name: string | undefined
  readonly build: string | undefined
  readonly player: string | undefined
}

async function rowsOf(wanted: Wanted, { fleet, ref }: Source): Promise<readonly Row[]> {
  const { kind, name, build, player } = wanted
  const now = Date.now()
  const filter = build === undefined ? {} : { build: ref(build) }
  switch (kind) {
    case 'builds': {
      const builds = name === undefined ? await fleet.builds.list() : [await fleet.builds.get(ref(name))]
      return builds.map((one) => buildRow(one, now))
    }
    case 'servers': {
      const servers = name === undefined ? await fleet.servers.list(filter) : [await fleet.servers.get(ref(name))]
      return servers.map((one) => serverRow(one, now))
    }
    case 'sessions': {
      if (player !== undefined) return [sessionRow(await fleet.sessions.ofPlayer(player), now)]
      const sessions = name === undefined ? await fleet.sessions.list(filter) : [await fleet.sessions.get(name)]
      return sessions.map((one) => sessionRow(one, now))
    }
  }
}

function buildRow(item: GameServerBuild, now: number): Row {
  const { metadata, spec, status } = item
  const { namespace, name, creationTimestamp } = metadata
  const { currentStandingByReadyDesired: ready, currentActive, currentPending, currentInitializing } = status
  const starting = String(currentPending + currentInitializing)
  const counts = [ready, String(currentActive), starting, String(spec.max), String(status.crashesCount)]
  const cells = [namespace, name, spec.buildID, ...counts, status.health, ageSince(creationTimestamp, now)]
  return { key: `${namespace}/${name}`, cells, item }
}

function serverRow(item: GameServer, now: number): Row {
  const { namespace, name, creationTimestamp } = item.metadata
  const { state, health, publicIP, ports, sessionID = '', sessions = [], message = '' } = item.status
  const session = sessions.length > 1 ? `${sessionID} +${sessions.length - 1}` : sessionID
  const cells = [namespace, name, state, health, publicIP, ports, session, ageSince(creationTimestamp, now), message]
  return { key: `${namespace}/${name}`, cells, item }
}

function sessionRow(item: GameSession | EndedGameSession, now: number): Row {
  if (item.state === 'Ended') {
    const { sessionID, server, state, players, startedAt } = item
    const [count, age] = [String(players.length), ageSince(startedAt, now)]
    const cells = [sessionID, server.namespace, server.name, state, '', '', count, '', age]
    return { key: sessionID, cells, item }
  }
  const { sessionID, server, state, address, ports, players, seats, startedAt } = item
  const pairs = ports.map((port) => `${port.container}:${port.public}`).join(',')
  const [count, age] = [String(players.length), ageSince(startedAt, now)]
  const free = seats ? `${seats.free}/${seats.total}` : ''
  const cells = [sessionID, server.namespace, server.name, state, address, pairs, count, free, age]
  return { key: sessionID, cells, item }
}

/** Columns are as wide as their widest cell. An empty cell is shown as `-`. */
function tableLines(head: readonly string[], rows: readonly (readonly string[])[]): readonly string[] {
  const lines = [head, ...rows.map((row) => row.map((cell) => (cell === '' ? '-' : oneLine(cell))))]
  const widths = head.map((_, column) => Math.max(...lines.map((line) => (line[column] ?? '').length)))
  return lines.map((line) =>
    line
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join('  ')
      .trimEnd(),
  )
}

/** `45s`, `12m`, `3h` or `2d` since an RFC 3339 time. */
function ageSince(time: string | undefined, nowMs: number): string {
  if (time === undefined) return ''
  const seconds = Math.max(0, Math.round((nowMs - Date.parse(time)) / 1000))
  if (seconds < 120) return `${seconds}s`
  if (seconds < 7_200) return `${Math.floor(seconds / 60)}m`
  return seconds < 172_800 ? `${Math.floor(seconds / 3_600)}h` : `${Math.floor(seconds / 86_400)}d`
}
