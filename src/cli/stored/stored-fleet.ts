/** What a host has left in DATA_DIR, with the calls that commands make to a running one. Reads logs of game servers; changes nothing. */
import { join } from 'node:path'
import { InstanceFiles } from '../../../adapters/process/files/instance-files.js'
import { readLog } from '../../../adapters/process/files/read-log.js'
import type { FleetClient, GameServer, GameServerBuild, GameSession, RefLike } from '../../client/index.js'
import { gameSession, sessionBody } from '../../contracts/sessions.js'
import { silentLogger } from '../../contracts/logger.js'
import { FleetError, readFileStore, systemClock } from '../../index.js'
import { gamePortsOf } from '../../rules/game/game-ports.js'
import { secretMask } from '../../rules/model/names.js'
import { type Build, keyOf, type Ref, type Server } from '../../rules/model/resources.js'
import { sessionKey } from '../../rules/model/session-ids.js'
import { gameServer, gameServerBuild } from '../../rules/model/wire.js'
import { shown } from '../../rules/validation/problem.js'

/** What commands read, from a running server or from DATA_DIR. */
export interface ReadableFleet {
  readonly builds: Pick<FleetClient['builds'], 'get' | 'list'>
  readonly servers: Pick<FleetClient['servers'], 'get' | 'list' | 'logs'>
  readonly sessions: Pick<FleetClient['sessions'], 'get' | 'list' | 'ofPlayer'>
  readonly explain: FleetClient['explain']
  readonly health: FleetClient['health']
}

/** Rejects as `readFileStore` does. */
export async function storedFleet(dataDir: string, apiGroup: string): Promise<ReadableFleet> {
  const { builds, servers, details } = await readFileStore({ directory: join(dataDir, 'store') })
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
      const problem = `no host runs on ${dataDir}; this is what the last one stored`
      return { ready: false, leads: false, canLead: true, store: true, backend: false, problems: [problem] }
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
