/**
 * How the fleet watches over a game that has no SDK: it asks the game from outside, and tells itself what an SDK would. The spec of a
 * build says what to ask. Pure.
 */
import type { Session } from '../model/resources.js'
import { cutText, sizeLimits } from '../model/sizes.js'
import { expandVariables } from './sdk-config.js'

/** How game servers are asked who plays. All but `http` are protocols that games have for their lists of servers. */
export const queryProtocols = ['a2s', 'minecraft', 'bedrock', 'sqp'] as const
export type QueryProtocol = (typeof queryProtocols)[number]

/** `port` is one of the build's portsToExpose. Default: the first. */
interface TcpProbe {
  readonly port?: number
}

interface UdpProbe {
  readonly port?: number
  /** Bytes in hexadecimal, like `expect`. */
  readonly send: string
  readonly expect?: string
}

interface HttpProbe {
  readonly port?: number
  readonly path: string
}

interface QueryProbe {
  readonly port?: number
  readonly protocol: QueryProtocol
}

interface HttpPlayersProbe {
  readonly port?: number
  readonly path: string
  /** Where the number of players, or the list of their names, is in the answer: names and indexes with dots between them. */
  readonly field: string
}

/** Something that a game answers. Exactly one of the fields is given. */
export interface NetworkProbe {
  /** Passes if the game accepts a connection. */
  readonly tcp?: TcpProbe
  /** Sends a datagram. Passes if an answer begins with the bytes in `expect`; without it, with any answer. */
  readonly udp?: UdpProbe
  /** Passes if a GET of the path is answered with a status from 200 to 299. */
  readonly http?: HttpProbe
  /** Passes if the game answers the query. */
  readonly query?: QueryProbe
}

/** How to learn who plays: by a query, or by a number or a list in a JSON document. Exactly one of the fields is given. */
export interface PlayersProbe {
  readonly query?: QueryProbe
  readonly http?: HttpPlayersProbe
}

/** Exactly one of the fields is given. */
export interface LivenessProbe extends NetworkProbe {
  /** Runs where the game does. Passes if it exits with code 0. See `expandedCommand`. */
  readonly command?: readonly string[]
}

/** Exactly one of the fields is given. */
export interface ReadinessProbe extends LivenessProbe {
  /** A line of the log that matches, see `matchesLine`. */
  readonly log?: string
  /** So many seconds after the start of the process. */
  readonly runningSeconds?: number
}

/** Exactly one of the first three fields is given. In the first two, `{sessionID}`, `{cookie}` and `{players}` stand for those of the session. */
export interface SessionNotice {
  /** A line for its standard input. */
  readonly stdin?: string
  /** Runs where the game does. The game knows its session if it exits with code 0. See `expandedCommand`. */
  readonly command?: readonly string[]
  /** The path of a file that is written where the game runs. See `sessionFile`. */
  readonly file?: string
  /** True if the game itself starts with its session, as of a script that waits for it: it is asked nothing before that. Default: false. */
  readonly startsGame?: boolean
}

/** What the fleet asks a game without an SDK, and how the game learns of a session. */
export interface GameSpec {
  /** When a server is ready: once this passes. With `session.startsGame`, when it is ready for the players of its session. */
  readonly readiness: ReadinessProbe
  /** Whether a ready server still works. Default: the query of `players`, or without one, that its process runs. */
  readonly liveness?: LivenessProbe
  /** Who plays. Default: not known. */
  readonly players?: PlayersProbe
  /** How the game learns of its session. Default: it does not. */
  readonly session?: SessionNotice
  /** When a session is over, besides with the end of its process. At least one of the fields is given. */
  readonly end?: {
    /** A line of the log that matches, see `matchesLine`. */
    readonly log?: string
    /** No player for so many seconds, after there was one. Needs `players`. */
    readonly emptySeconds?: number
  }
  /** Seconds from one probe of a server to the next. 1 to 60. Default: 5. */
  readonly periodSeconds?: number
  /** Seconds within which a probe must pass. 1 to 30. Default: 2. */
  readonly timeoutSeconds?: number
  /** How many probes in a row must fail until the server counts as Unhealthy. 1 to 100. Default: 3. */
  readonly failureThreshold?: number
}

export const gameDefaults = { periodSeconds: 5, timeoutSeconds: 2, failureThreshold: 3 } as const

/** Who plays. Not every game names its players, or all of them. */
export interface PlayersReport {
  readonly count: number
  /** At most `count`. */
  readonly names: readonly string[]
}

/** The container port that a probe goes to. Undefined: the first of portsToExpose. */
export function networkProbePort({ tcp, udp, http, query }: NetworkProbe): number | undefined {
  return (tcp ?? udp ?? http ?? query)?.port
}

export function playersProbePort({ query, http }: PlayersProbe): number | undefined {
  return (query ?? http)?.port
}

/** What is known of a game while it is probed. Times are on a clock that never jumps, in ms. */
export interface Probed {
  /** How many probes in a row have failed. */
  readonly failures: number
  /** Who plays, as the game last said. */
  readonly players: readonly string[]
  /** When the game last said who plays. */
  readonly saidAt: number | undefined
  /** How often it has been asked since then without saying it. */
  readonly unsaid: number
  /** Since when it has said, without a gap, that nobody plays. */
  readonly emptySince: number | undefined
}

export const unprobed: Probed = { failures: 0, players: [], saidAt: undefined, unsaid: 0, emptySince: undefined }

/** Players may have come and gone unseen while so many answers in a row were missing, or for so long. */
export const gapAnswers = 3
const gapMs = 180_000

/** A probe has passed; `report` is what it said of players, if it did. */
export function afterPass(before: Probed, report: PlayersReport | undefined, now: number): Probed {
  if (!report) return { ...before, failures: 0, unsaid: before.unsaid + 1 }
  const isGap = before.saidAt === undefined || before.unsaid >= gapAnswers || now - before.saidAt > gapMs
  const emptySince = report.count > 0 ? undefined : isGap ? now : (before.emptySince ?? now)
  return { failures: 0, players: playersOf(report, before.players), saidAt: now, unsaid: 0, emptySince }
}

/** A lost answer says nothing about players, and does not make a server Unhealthy alone. */
export function afterFailedProbe(before: Probed): Probed {
  return { ...before, failures: before.failures + 1, unsaid: before.unsaid + 1 }
}

/** No game answers, so that the failure does not count, but players may have come and gone unseen. */
export function afterLostAnswer(before: Probed): Probed {
  return { ...before, unsaid: before.unsaid + 1 }
}

export function isHealthy({ failures }: Probed, spec: GameSpec): boolean {
  return failures < (spec.failureThreshold ?? gameDefaults.failureThreshold)
}

/** Why the session is over, or undefined if it is not. Never before a player was there, and only by what the game has said itself. */
export function emptyEnd({ emptySince, saidAt }: Probed, hadPlayers: boolean, spec: GameSpec): string | undefined {
  const seconds = spec.end?.emptySeconds
  if (seconds === undefined || emptySince === undefined || saidAt === undefined || !hadPlayers) return undefined
  return saidAt - emptySince >= seconds * 1_000 ? `no player for ${seconds} s` : undefined
}

/**
 * Players who are not named are numbered, so that their number is right. In the order of their names: some games shuffle them. Games that name
 * a part of them name others each time, so while their number stays, so do their names.
 */
function playersOf({ count, names }: PlayersReport, before: readonly string[]): readonly string[] {
  const number = Math.min(count, sizeLimits.reportedPlayers)
  const known = names.slice(0, number).toSorted()
  if (known.length < number && before.length === number) return before
  const all = [...known, ...Array.from({ length: number - known.length }, (_, i) => `unnamed-${i + 1}`)]
  return all.length === before.length && all.every((name, i) => name === before[i]) ? before : all
}

const unnamed = /^unnamed-\d+$/

/** True for a player whom the game does not name: on another server, another player has the same name. */
export function isUnnamed(player: string): boolean {
  return unnamed.test(player)
}

/** How much of a line is compared. */
export const maxLineLength = 4_096

/**
 * True if the pattern occurs in the line: `*` stands for any text, everything else for itself. Takes time in proportion to the line, whatever
 * the pattern and the line.
 */
export function matchesLine(line: string, pattern: string): boolean {
  const text = line.slice(0, maxLineLength)
  let from = 0
  for (const part of pattern.split('*')) {
    const at = text.indexOf(part, from)
    if (at < 0) return false
    from = at + part.length
  }
  return true
}

/** The line that tells a game of its session, or an argument of the command. What would break the line is left out. */
export function sessionLine(template: string, { id, cookie = '', initialPlayers }: Session): string {
  const values: Readonly<Record<string, string>> = {
    '{sessionID}': id,
    '{cookie}': cookie,
    '{players}': initialPlayers.join(','),
  }
  return template.replace(/\{(?:sessionID|cookie|players)\}/g, (name) => values[name]?.replace(controls, ' ') ?? '')
}

/** The command that writes the session to a file, and its input. Private: for its user only, as on a machine with others. A game in a container may have another user than its commands. */
export function sessionFile(
  path: string,
  { id, cookie, initialPlayers }: Session,
  isPrivate: boolean,
): { readonly command: readonly string[]; readonly input: string } {
  // `stringify` leaves out a cookie that is undefined.
  const json = JSON.stringify({ sessionID: id, sessionCookie: cookie, initialPlayers })
  return { command: ['sh', '-c', writeFile, 'sh', path, isPrivate ? '077' : '022'], input: `${json}\n` }
}

/**
 * Writes a line to a new file of this user, and renames it. A line that arrives in part is not read: its host has ended. `read`, `printf` and
 * the tests are builtins of all shells.
 */
const writeFile = `umask $2
case $1 in /*) file=$1 ;; *) file=$PF_SHARED_CONTENT_FOLDER/$1 ;; esac
[ ! -d "$file" ] || { echo "$file is a directory"; exit 1; }
IFS= read -r line && rm -f -- "$file.new" && printf '%s\\n' "$line" >"$file.new" && mv -f -- "$file.new" "$file"`

/** Where a command runs, in the words of templates. */
export interface CommandPlace {
  readonly namespace: string
  readonly name: string
  /** The number at which the game listens for each container port. */
  readonly ports: readonly { readonly container: number; readonly listening: number }[]
}

/** Replaces `$(PORT_<containerPort>)` and the name of the server, as in templates. */
export function expandedCommand(command: readonly string[], { namespace, name, ports }: CommandPlace): string[] {
  const values = new Map([
    ['PF_GAMESERVER_NAMESPACE', namespace],
    ['PF_GAMESERVER_NAME', name],
    ...ports.map(({ container, listening }) => [`PORT_${container}`, String(listening)] as const),
  ])
  return command.map((part) => expandVariables(part, values))
}

/** The last line that a command has printed, for a message. Empty if there is none. */
export function lastLineOf(output: string): string {
  const lines = output.split(/[\r\n]+/).map((line) => line.replace(controls, ' ').trim())
  return cutText(lines.findLast((line) => line !== '') ?? '', maxShownBytes)
}

const maxShownBytes = 200

// eslint-disable-next-line no-control-regex -- the pattern must match control characters
const controls = /[\u0000-\u001f\u007f]/g
