/** Where commands that only read find a fleet: at a running server, or in DATA_DIR when no host runs on it. */
import { join, resolve } from 'node:path'
import type { Command } from 'commander'
import { InstanceFiles } from '../../adapters/process/files/instance-files.js'
import { readLog } from '../../adapters/process/files/logs.js'
import type { FleetClient, GameServer, GameServerBuild, GameSession, RefLike } from '../client/index.js'
import type { Resolved } from '../config/resolve.js'
import { CommandLineError } from '../config/usage-error.js'
import { settings } from '../config/variables.js'
import { messageOf } from '../contracts/errors.js'
import { silentLogger } from '../contracts/logger.js'
import { gameSession, sessionBody } from '../contracts/sessions.js'
import { FleetError, readFileStore, systemClock } from '../index.js'
import { secretMask, sessionKey } from '../rules/model/names.js'
import { problemsOf } from '../rules/model/problems.js'
import { type Build, keyOf, type Ref, type Server } from '../rules/model/resources.js'
import { gameServer, gameServerBuild } from '../rules/model/wire.js'
import { gamePortsOf } from '../rules/validation/pod-template.js'
import { shown } from '../rules/validation/problem.js'
import {
  addClientOptions,
  type ClientFlags,
  clientSettingsOf,
  type CommandTarget,
  namesIn,
  ownUrl,
  targetIn,
} from './client.js'
import type { Terminal } from './terminal.js'

export interface SourceFlags extends ClientFlags {
  readonly dataDir?: string
  readonly url?: string
}

export interface Source extends Pick<CommandTarget, 'ref' | 'namespace'> {
  readonly fleet: ReadableFleet
  /** The same, at a running server. */
  readonly client?: FleetClient
  /** One of the two. */
  readonly where: { readonly url?: string; readonly dataDir?: string }
}

export function addSourceOptions(command: Command): Command {
  const meaning = 'Read what is stored there, when no host runs on it. DATA_DIR without a URL does so, too.'
  return addClientOptions(command.option('--data-dir <directory>', meaning))
}

/** Throws UsageError, `not-found` without a store, `directory-in-use` while a host runs on it, or `directory-unusable`. */
export async function sourceOf(terminal: Terminal, flags: SourceFlags): Promise<Source> {
  const { dataDir, url } = flags
  if (dataDir !== undefined && url !== undefined)
    throw new CommandLineError(
      '--url and --data-dir are two places: name the server, or the directory when no host runs on it',
    )
  const resolved = await clientSettingsOf(terminal, flags, { DATA_DIR: dataDir })
  if (dataDir === undefined && !mayBeStored(resolved.env)) return atServer(resolved)
  const directory = resolve(terminal.cwd, resolved.env['DATA_DIR'] ?? settings.DATA_DIR.fallback)
  try {
    const fleet = await storedFleet(directory, resolved.env['API_GROUP'] ?? settings.API_GROUP.fallback)
    return { fleet, where: { dataDir: directory }, ...namesIn(resolved.env) }
  } catch (error) {
    const isInUse = FleetError.is(error, 'directory-in-use')
    if (dataDir === undefined && (isInUse || FleetError.is(error, 'not-found'))) return atServer(resolved)
    if (!isInUse) throw error
    const how = `its host answers through its API: leave out --data-dir, and set --url if it is not ${ownUrl(resolved.env)}`
    throw new FleetError('directory-in-use', `${messageOf(error)}; ${how}`, { cause: error })
  }
}

/** The session with this id, or the one whose GUID begins like this, if it is the only one. Rejects with `not-found`. */
export async function sessionNamed(
  { sessions }: Pick<ReadableFleet, 'sessions'>,
  text: string,
): ReturnType<ReadableFleet['sessions']['get']> {
  try {
    return await sessions.get(text)
  } catch (error) {
    if (!FleetError.is(error, 'not-found') || !prefix.test(text)) throw error
    const beginning = text.toLowerCase()
    const found = (await sessions.list()).filter(
      ({ sessionID }) => guid.test(sessionID) && sessionID.toLowerCase().startsWith(beginning),
    )
    const [only, another] = found
    if (!only) throw error
    if (another) throw new CommandLineError(`${found.length} sessions begin with ${text}: write more of the id`)
    return only
  }
}

/** Of other ids, one may begin like another, which must not be taken for it. */
const guid = /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/i
const prefix = /^[\da-f]{6,8}(-[\da-f-]*)?$/i

export function needsHost(flag: string, { dataDir }: SourceFlags): CommandLineError {
  const where = dataDir ?? 'DATA_DIR'
  return new CommandLineError(`${flag} needs a running host, but none runs on ${where}`)
}

/** Whether the settings name a directory and no server. */
function mayBeStored(env: Resolved['env']): boolean {
  const { GAMEKEEPER_URL: url, DATA_DIR: dataDir, BACKEND: backend } = env
  return url === undefined && dataDir !== undefined && backend !== 'kubernetes' && backend !== 'memory'
}

function atServer(resolved: Resolved): Source {
  const { client, managementUrl, ref, namespace } = targetIn(resolved)
  return { fleet: client, client, where: { url: managementUrl }, ref, namespace }
}

// What a host has left in DATA_DIR, with the calls that commands make to a running one. Reads logs of game servers; changes nothing.

/** What commands read, from a running server or from DATA_DIR. */
interface ReadableFleet {
  readonly builds: Pick<FleetClient['builds'], 'get' | 'list'>
  readonly servers: Pick<FleetClient['servers'], 'get' | 'list' | 'logs'>
  readonly sessions: Pick<FleetClient['sessions'], 'get' | 'list' | 'ofPlayer'>
  readonly explain: FleetClient['explain']
  readonly health: FleetClient['health']
  readonly problems: FleetClient['problems']
}

/** Rejects as `readFileStore` does. */
export async function storedFleet(dataDir: string, apiGroup: string): Promise<ReadableFleet> {
  const { builds, servers, details } = await readFileStore({ directory: join(dataDir, 'store') })
  const noHost = `no host runs on ${dataDir}; this is what the last one stored`
  const players = new Map(details.map((detail) => [keyOf(detail), detail.players]))
  const files = new InstanceFiles(dataDir, silentLogger)
  const findBuild = (like: RefLike) => found('build', builds, like)
  const findServer = (like: RefLike) => found('server', servers, like)
  const serversOf = (like: RefLike | undefined) => {
    const build = like === undefined ? undefined : findBuild(like)
    return servers.filter((server) => build === undefined || isOf(build)(server))
  }
  const buildView = (build: Build): GameServerBuild => gameServerBuild(build, countsOf(servers, build), apiGroup)
  const serverView = (server: Server): GameServer => gameServer(server, apiGroup)
  const sessionViews = (of: readonly Server[]): readonly GameSession[] =>
    of.flatMap((server) => {
      const build = builds.find((one) => isOf(one)(server))
      if (!build) return []
      const ports = gamePortsOf(build.spec.template)
      const connected = players.get(keyOf(server)) ?? []
      const now = systemClock.now()
      return server.sessions.map((session) => gameSession(sessionBody(build, server, connected, ports, now, session)))
    })

  return {
    builds: { get: async (ref) => buildView(findBuild(ref)), list: async () => builds.map(buildView) },
    servers: {
      get: async (ref) => serverView(findServer(ref)),
      list: async ({ build } = {}) => serversOf(build).map(serverView),
      logs(ref, options = {}) {
        const { namespace, name } = refOf(ref)
        const record = servers.find((server) => keyOf(server) === keyOf({ namespace, name }))
        const source = {
          path: files.logOf({ namespace, name }),
          server: name,
          isGrowing: () => false,
          clock: systemClock,
        }
        return masked(readLog(source, options), secretMask(name, record?.token))
      },
    },
    sessions: {
      async get(sessionID) {
        const session = sessionViews(servers).find((one) => sessionKey(one.sessionID) === sessionKey(sessionID))
        if (!session) throw new FleetError('not-found', `no server has the session ${shown(sessionID)}`)
        return session
      },
      list: async ({ build } = {}) => sessionViews(serversOf(build)),
      async ofPlayer(player) {
        const all = sessionViews(servers).filter(({ state }) => state === 'Active')
        const [latest] = all
          .filter((one) => one.players.includes(player) || one.initialPlayers.includes(player))
          .toSorted(
            (a, b) =>
              Number(b.players.includes(player)) - Number(a.players.includes(player)) ||
              (b.startedAt ?? '').localeCompare(a.startedAt ?? ''),
          )
        if (!latest) throw new FleetError('not-found', `no session has the player ${shown(player)}`)
        return latest
      },
    },
    async explain(ref) {
      const server = findServer(ref)
      return { server: serverView(server), events: [], text: historyOf(server) }
    },
    async health() {
      return { ready: false, leads: false, canLead: true, store: true, backend: false, problems: [noHost] }
    },
    async problems() {
      const situation = (build: Build) => ({ build, counts: countsOf(servers, build), isFull: isFull(servers, build) })
      return problemsOf({
        host: [noHost],
        builds: builds.map(situation),
        servers: servers.map((server) => ({ server })),
      })
    },
  }
}

function refOf(like: RefLike): Ref {
  return typeof like === 'string' ? { namespace: 'default', name: like } : { namespace: 'default', ...like }
}

function found<T extends Ref>(kind: string, records: readonly T[], like: RefLike): T {
  const key = keyOf(refOf(like))
  const record = records.find((one) => keyOf(one) === key)
  if (!record) throw new FleetError('not-found', `${kind} ${key} does not exist`)
  return record
}

function isOf(build: Build): (server: Server) => boolean {
  return (server) => server.namespace === build.namespace && server.build === build.name
}

function countsOf(servers: readonly Server[], build: Build) {
  const own = servers.filter(isOf(build))
  const count = (state: Server['state']) => own.filter((server) => server.state === state).length
  return {
    pending: count('Pending'),
    initializing: count('Initializing'),
    standingBy: count('StandingBy'),
    active: count('Active'),
    terminating: count('Terminating'),
  }
}

function isFull(servers: readonly Server[], build: Build): boolean {
  const active = servers.filter((server) => isOf(build)(server) && server.state === 'Active')
  return active.every(({ sessions }) => sessions.length >= (build.spec.sessionsPerServer ?? 1))
}

/** The events themselves were in the memory of the host. */
function historyOf({
  createdAt,
  reachedInitializingOn,
  reachedStandingByOn,
  reachedActiveOn,
  sessions: [session],
  ending,
}: Server) {
  const steps: readonly (readonly [number | undefined, string])[] = [
    [createdAt, 'was created'],
    [reachedInitializingOn, 'became Initializing'],
    [reachedStandingByOn, 'became StandingBy'],
    [reachedActiveOn, `was allocated to session ${session?.id ?? ''}`],
    [ending?.at, ending?.message ?? ''],
  ]
  return steps.flatMap(([at, what]) => (at === undefined ? [] : [`${new Date(at).toISOString()} ${what}`])).join('\n')
}

async function* masked(lines: AsyncIterable<string>, mask: (line: string) => string): AsyncGenerator<string> {
  for await (const line of lines) yield mask(line)
}
