/** `gamekeeper get`: tables of builds, servers and sessions. */
import { setTimeout } from 'node:timers/promises'
import { Argument, type Command } from 'commander'
import type { EndedGameSession, FleetClient, GameServer, GameServerBuild, GameSession } from '../../client/index.js'
import { CommandLineError } from '../../config/usage-error.js'
import { FleetError } from '../../contracts/errors.js'
import { readinessOf, standingByOf } from '../../rules/model/build-status.js'
import { oneLine } from '../../server/log.js'
import { addSourceOptions, needsHost, sessionNamed, type Source, type SourceFlags, sourceOf } from '../stored-fleet.js'
import { type Column, tableLines, type Widths } from '../table.js'
import type { Colour, Terminal } from '../terminal.js'

interface GetFlags extends SourceFlags {
  readonly build?: string
  readonly player?: string
  readonly watch?: boolean
}

const kinds = ['builds', 'servers', 'sessions'] as const
type Kind = (typeof kinds)[number]

/** `get server NAME` reads as well as `drain server NAME`. */
const singular = { build: 'builds', server: 'servers', session: 'sessions' } as const
type Word = Kind | keyof typeof singular

/** One line of a table, and its JSON. */
interface Row {
  readonly key: string
  readonly cells: readonly string[]
  readonly item: object
}

const states: Readonly<Record<string, Colour>> = {
  StandingBy: 'green',
  Active: 'cyan',
  Starting: 'cyan',
  Initializing: 'yellow',
  Pending: 'yellow',
  Terminating: 'dim',
  Ended: 'dim',
  Draining: 'dim',
  Healthy: 'green',
  Ready: 'green',
  Unknown: 'dim',
  LateServers: 'yellow',
  Unhealthy: 'red',
  Crashing: 'red',
  CreateBlocked: 'red',
  Disappearing: 'red',
  Invalid: 'red',
}
const colourOf = (cell: string) => states[cell]
const namespace = { head: 'NAMESPACE', cut: 'text' } as const
const fixed = (head: string) => ({ head, cut: 'fixed' }) as const

const columnsOf: Readonly<Record<Kind, readonly Column[]>> = {
  builds: [
    namespace,
    { head: 'NAME' },
    { head: 'BUILD ID', cut: 'id' },
    ...['READY', 'ACTIVE', 'PENDING', 'MAX', 'CRASHES'].map(fixed),
    { head: 'STATUS', cut: 'fixed', colourOf },
    fixed('AGE'),
  ],
  servers: [
    namespace,
    { head: 'NAME' },
    { head: 'STATE', cut: 'fixed', colourOf },
    { head: 'HEALTH', cut: 'fixed', colourOf },
    { head: 'ADDRESS' },
    { head: 'PORTS' },
    { head: 'SESSION', cut: 'id' },
    fixed('AGE'),
    { head: 'MESSAGE', cut: 'text' },
  ],
  sessions: [
    { head: 'SESSION', cut: 'id' },
    namespace,
    { head: 'SERVER' },
    { head: 'STATE', cut: 'fixed', colourOf },
    { head: 'ADDRESS' },
    { head: 'PORTS' },
    fixed('PLAYERS'),
    fixed('FREE SEATS'),
    fixed('AGE'),
  ],
}

export function addGet(program: Command, terminal: Terminal): void {
  const command = program
    .command('get')
    .description('List builds, servers or sessions.')
    .addArgument(
      new Argument('<kind>', 'What to list: builds, servers or sessions.').choices([
        ...kinds,
        ...Object.keys(singular),
      ]),
    )
    .argument('[name]', 'Only this build, server or session. Of a session, its first 6 characters are enough.')
    .option('--build <name>', 'Only servers or sessions of this build.')
    .option('--player <id>', 'Only the session that this player is in.')
    .option('-w, --watch', 'Go on, and show what changes: in place on a terminal, else a line for each change.')
  addSourceOptions(command).action(async (word: Word, name: string | undefined, flags: GetFlags) => {
    const kind = isSingular(word) ? singular[word] : word
    const { build, player } = flags
    if (player !== undefined && (kind !== 'sessions' || name !== undefined || build !== undefined))
      throw new CommandLineError('--player goes with get sessions, without a session and --build')
    if (build !== undefined && (kind === 'builds' || name !== undefined))
      throw new CommandLineError('--build goes with get servers and get sessions, without a name')
    const source = await sourceOf(terminal, flags)
    if (flags.watch && !source.client) throw needsHost('--watch', flags)
    const rows = () => rowsOf({ kind, name, build, player }, source)
    const view = new TableView(terminal, kind, source.namespace, flags.json === true)
    if (flags.watch && source.client) return watch(terminal, source.client, view, rows)
    const all = await rows()
    if (flags.json) terminal.print(JSON.stringify(all.map(({ item }) => item)))
    else view.print(all)
  })
}

function isSingular(word: Word): word is keyof typeof singular {
  return word in singular
}

class TableView {
  readonly #terminal: Terminal
  readonly #kind: Kind
  /** Namespaces are not shown on a terminal if this is the only one. */
  readonly #namespace: string
  readonly #json: boolean
  readonly #widths: Widths = []
  #known: ReadonlyMap<string, string> | undefined
  #last: readonly string[] = []

  constructor(terminal: Terminal, kind: Kind, namespaceOfNames: string, json: boolean) {
    this.#terminal = terminal
    this.#kind = kind
    this.#namespace = namespaceOfNames
    this.#json = json
  }

  print(rows: readonly Row[]): void {
    const { head, lines } = this.#lines(rows)
    for (const line of [head, ...lines]) this.#terminal.print(line)
    if (rows.length === 0) this.#terminal.note(`no ${this.#kind}`)
  }

  /** On a terminal, the whole table in place of the last one. Else the rows that are new or different. */
  show(rows: readonly Row[]): void {
    const { head, lines } = this.#lines(rows)
    if (!this.#json && this.#terminal.size()) {
      this.#last = [head, ...lines]
      return this.#terminal.repaint(this.#last)
    }
    const known = this.#known
    this.#known = new Map(rows.map((row) => [row.key, stable(row)]))
    if (!this.#json && !known) return this.print(rows)
    for (const [i, row] of rows.entries())
      if (known?.get(row.key) !== stable(row))
        this.#terminal.print(this.#json ? JSON.stringify(row.item) : (lines[i] ?? ''))
  }

  stale(note: string): void {
    if (!this.#json && this.#terminal.size()) this.#terminal.repaint([...this.#last, this.#terminal.paint('red', note)])
    else this.#terminal.note(note)
  }

  #lines(rows: readonly Row[]): { readonly head: string; readonly lines: readonly string[] } {
    const width = this.#terminal.size()?.columns
    const columns = columnsOf[this.#kind]
    const at = columns.indexOf(namespace)
    const isOne = width !== undefined && rows.every(({ cells }) => cells[at] === this.#namespace)
    const cells = rows.map((row) => (isOne ? row.cells.with(at, '') : row.cells))
    const { paint } = this.#terminal
    return tableLines(columns, cells, { width, paint, ...(width === undefined && { widths: this.#widths }) })
  }
}

/** A burst of events is one list. What no event says, such as a store that breaks, is seen at the next one. */
const watchMs = 250
const refreshMs = 5_000

function watch(
  terminal: Terminal,
  client: FleetClient,
  view: TableView,
  rows: () => Promise<readonly Row[]>,
): Promise<void> {
  const show = async () => view.show(await orEmpty(rows()))
  return keepShowing(client, terminal.untilReaderGone(), { show, stale: (note) => view.stale(note) })
}

interface Shown {
  readonly show: () => Promise<void>
  /** The host is away: what was shown last stays, with this note. */
  readonly stale: (note: string) => void
}

/** Shows at once, soon after each event, and every few seconds. Resolves when the signal fires; rejects as the first `show` does. */
export async function keepShowing(client: FleetClient, signal: AbortSignal, { show, stale }: Shown): Promise<void> {
  await show()
  let shownAt = new Date()
  let wake = () => {}
  const listen = async () => {
    for await (const event of client.events({ signal })) if (event.type !== 'Audited') wake()
  }
  let failure: { readonly error: unknown } | undefined
  listen().catch((error: unknown) => {
    failure = { error }
    wake()
  })
  while (!signal.aborted) {
    const woken = new Promise<void>((resolve) => (wake = resolve))
    const pause = (ms: number) => setTimeout(ms, undefined, { signal }).catch(() => {})
    await Promise.race([woken, pause(refreshMs)])
    await pause(watchMs)
    if (failure) throw failure.error
    if (signal.aborted) return
    try {
      await show()
      shownAt = new Date()
    } catch (error) {
      if (!FleetError.is(error, 'unavailable') && !FleetError.is(error, 'not-leader')) throw error
      stale(`data from ${shownAt.toLocaleTimeString('en', { hourCycle: 'h23' })}, retrying: ${oneLine(error.message)}`)
    }
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
      const sessions = name === undefined ? await fleet.sessions.list(filter) : [await sessionNamed(fleet, name)]
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
  const cells = [namespace, name, spec.buildID, ...counts, statusOf(item), ageSince(creationTimestamp, now)]
  return { key: `${namespace}/${name}`, cells, item }
}

/** `Ready`, or why it is not. */
function statusOf(item: GameServerBuild): string {
  const { spec, status } = item
  const { conditions = [], crashesCount: crashes, currentStandingBy: standingBy } = status
  const wanted = Math.max(0, Math.min(standingByOf(item), spec.max - status.currentActive))
  const { ready, reason } = readinessOf({ spec, crashes, conditions }, { wanted, standingBy })
  return ready ? 'Ready' : reason
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

/** `45s`, `12m`, `3h` or `2d` since an RFC 3339 time. */
function ageSince(time: string | undefined, nowMs: number): string {
  if (time === undefined) return ''
  const seconds = Math.max(0, Math.round((nowMs - Date.parse(time)) / 1000))
  if (seconds < 120) return `${seconds}s`
  if (seconds < 7_200) return `${Math.floor(seconds / 60)}m`
  return seconds < 172_800 ? `${Math.floor(seconds / 3_600)}h` : `${Math.floor(seconds / 86_400)}d`
}
