/** The client's calls for builds, servers, details and sessions. Each sends one request to the management API. */
import { type AllOptions, type CallOptions, itemsOf, type Page, type PageOptions } from '../contracts/call-options.js'
import { FleetError } from '../contracts/errors.js'
import type {
  AppliedBuild,
  Builds,
  Details,
  MaintenanceResult,
  MaintenanceTarget,
  ServerFilter,
  Servers,
  ServerUsage,
} from '../contracts/fleet.js'
import { checkNames } from '../contracts/option-checks.js'
import type { DrainOptions, DrainResult } from '../contracts/options.js'
import { type EndedGameSession, type GameSessionBody, gameSession, type Sessions } from '../contracts/sessions.js'
import type { Ref, RefLike } from '../rules/model/resources.js'
import {
  continueHeader,
  type GameServer,
  type GameServerBuild,
  type GameServerBuildDetail,
  type GameServerDetail,
} from '../rules/model/wire.js'
import type { DemandRecording } from '../rules/demand/demand-day.js'
import { isObject, shown } from '../rules/validation/problem.js'
import { type Call, type Connection, type Target, to } from './connection.js'
import { readLogs, readSlowly } from './streams.js'

export function buildCalls(calls: Connection): Builds {
  const build = async (call: Call) => nativeBuild(await calls.json<GameServerBuild>(call))
  return {
    create: async (input, { signal } = {}) => build({ ...to('createBuild'), body: input, signal }),
    async apply(input, { signal } = {}) {
      const given: unknown = input
      if (!isObject(given) || !isObject(given['metadata'])) {
        throw new FleetError('invalid', 'builds.apply takes a build with metadata and spec')
      }
      const target = to('applyBuild', named(input.metadata))
      const applied = await calls.json<AppliedBuild>({ ...target, body: input, signal })
      return { ...applied, build: nativeBuild(applied.build) }
    },
    ...listCalls<GameServerBuild, object>(calls, 'builds', [], () => to('listBuilds'), nativeBuild),
    get: async (ref, { signal } = {}) => build({ ...to('getBuild', named(ref)), signal }),
    patch: async (ref, change, { signal } = {}) => build({ ...to('patchBuild', named(ref)), body: change, signal }),
    async update(ref, change, { signal } = {}) {
      // JSON has no undefined, which removes a field.
      const body = isObject(change)
        ? Object.fromEntries(Object.entries(change).map(([field, value]) => [field, value ?? null]))
        : change
      return build({ ...to('updateBuild', named(ref)), body, signal })
    },
    demand: async (ref, { signal } = {}) => calls.json<DemandRecording>({ ...to('readDemand', named(ref)), signal }),
    drain: async (ref, options) => drain(calls, to('drainBuild', named(ref)), options),
    resume: async (ref, { signal } = {}) => build({ ...to('resumeBuild', named(ref)), body: {}, signal }),
    async delete(ref, { signal } = {}) {
      await calls.send({ ...to('deleteBuild', named(ref)), signal })
    },
  }
}

/** In the format of Thundernetes, the metadata of a build are an array. */
function nativeBuild(build: GameServerBuild): GameServerBuild {
  const spec: unknown = build.spec
  const metadata = isObject(spec) ? spec['buildMetadata'] : undefined
  if (!Array.isArray(metadata)) return build
  const entries = metadata.flatMap((item: unknown) => (isObject(item) ? [[item['key'], String(item['value'])]] : []))
  return { ...build, spec: { ...build.spec, buildMetadata: Object.fromEntries(entries) } }
}

export function serverCalls(calls: Connection): Servers {
  const list = ({ build }: ServerFilter) =>
    build === undefined ? to('listServers') : to('listServersOfBuild', named(build))
  return {
    ...listCalls<GameServer, ServerFilter>(calls, 'servers', ['build'], list),
    get: async (ref, { signal } = {}) => calls.json<GameServer>({ ...to('getServer', named(ref)), signal }),
    update: async (ref, change, { signal } = {}) =>
      calls.json<GameServer>({ ...to('updateServer', named(ref)), body: change, signal }),
    drain: async (ref, options) => drain(calls, to('drainServer', named(ref)), options),
    async announceMaintenance(target, begin, { signal } = {}) {
      const announced = isNode(target)
        ? to('announceNodeMaintenance', target)
        : to('announceServerMaintenance', named(target))
      return calls.json<MaintenanceResult>({ ...announced, body: { at: rfc3339(begin) }, signal })
    },
    async withdrawMaintenance(target, { signal } = {}) {
      const withdrawn = isNode(target)
        ? to('withdrawNodeMaintenance', target)
        : to('withdrawServerMaintenance', named(target))
      return calls.json<MaintenanceResult>({ ...withdrawn, signal })
    },
    reserve: async (ref, { forMs, signal }) =>
      calls.json<GameServer>({ ...to('reserveServer', named(ref)), body: { forMs }, signal }),
    release: async (ref, { signal } = {}) => calls.json<GameServer>({ ...to('releaseServer', named(ref)), signal }),
    async delete(ref, { signal } = {}) {
      await calls.send({ ...to('deleteServer', named(ref)), signal })
    },
    logs(ref, options = {}) {
      checkNames('logs', options, ['follow', 'tail', 'origin', 'signal'])
      return readLogs(calls, to('readLogs', named(ref)), options)
    },
    usage: async (ref, { signal } = {}) => calls.json<ServerUsage>({ ...to('readUsage', named(ref)), signal }),
    async writeStdin(ref, line, { signal } = {}) {
      await calls.send({ ...to('writeStdin', named(ref)), body: { line }, signal })
    },
  }
}

function isNode(target: MaintenanceTarget): target is { readonly node: string } {
  return typeof target === 'object' && !('name' in target)
}

/** Sends an invalid time unchanged, so that the host rejects it with an error that contains the value. */
function rfc3339(begin: Date | number): unknown {
  const time = new Date(begin)
  return Number.isNaN(time.getTime()) ? begin : time.toISOString()
}

export function detailCalls(calls: Connection): Details {
  return {
    async get(ref, { signal } = {}) {
      const target = to('getServerDetail', named(ref))
      const { items } = await readPage<GameServerDetail>(calls, { ...target, signal })
      const [detail] = items
      if (detail !== undefined) return detail
      throw new FleetError('internal', `${calls.urlOf(target)} answered with an empty list`)
    },
    ofBuild: async (ref, { signal } = {}) =>
      calls.json<GameServerBuildDetail>({ ...to('getBuildDetail', named(ref)), signal }),
  }
}

/** Of one request for the end of a session. Less than proxies wait for an answer. */
const longestWaitMs = 25_000

export function sessionCalls(calls: Connection): Sessions {
  const session = async (call: Call) => gameSession(await calls.json<GameSessionBody>(call))
  const sessions = async (call: Call) => (await calls.json<readonly GameSessionBody[]>(call)).map(gameSession)
  return {
    async get(sessionID, { signal } = {}) {
      const found = await calls.json<GameSessionBody | EndedGameSession>({ ...to('getSession', { sessionID }), signal })
      return found.state === 'Ended' ? found : gameSession(found)
    },
    async ended(sessionID, options = {}) {
      checkNames('sessions.ended', options, ['waitMs', 'signal'])
      const { waitMs = Infinity, signal } = options
      if (!(waitMs >= 0)) throw new FleetError('invalid', `waitMs must be a number ≥ 0, but is ${shown(waitMs)}`)
      const target = to('getSession', { sessionID })
      const since = performance.now()
      for (;;) {
        const leftMs = Math.max(0, waitMs - (performance.now() - since))
        const call = { ...target, waitMs: Math.min(leftMs, longestWaitMs), signal }
        const found = await calls.json<GameSessionBody | EndedGameSession>(call)
        if (found.state === 'Ended') return found
        if (leftMs <= longestWaitMs)
          throw new FleetError('aborted', `session ${sessionID} has not ended within ${waitMs} ms`)
      }
    },
    async list(options = {}) {
      checkNames('sessions.list', options, ['build', 'signal'])
      const { build, signal } = options
      const target = build === undefined ? to('listSessions') : to('listSessionsOfBuild', named(build))
      return sessions({ ...target, signal })
    },
    ofPlayer: async (player, { signal } = {}) => session({ ...to('getSessionOfPlayer', { player }), signal }),
    async end(sessionID, options = {}) {
      checkNames('sessions.end', options, ['signal', 'caller'])
      await calls.send({ ...to('endSession', { sessionID }), signal: options.signal })
    },
    async reserveSeats(sessionID, players, options = {}) {
      checkNames('sessions.reserveSeats', options, ['holdMs', 'signal', 'caller'])
      const { holdMs, signal } = options
      return session({ ...to('reserveSeats', { sessionID }), body: { players, holdMs }, signal })
    },
    async releaseSeats(sessionID, players, options = {}) {
      checkNames('sessions.releaseSeats', options, ['signal', 'caller'])
      return session({ ...to('releaseSeats', { sessionID }), body: { players }, signal: options.signal })
    },
    async withRoom(query, options = {}) {
      checkNames('sessions.withRoom', options, ['signal'])
      return sessions({ ...to('findSessionsWithRoom'), body: query, signal: options.signal })
    },
    async join(request, options = {}) {
      checkNames('sessions.join', options, ['waitMs', 'signal', 'caller'])
      const { waitMs, signal } = options
      return session({ ...to('joinSession'), body: request, waitMs, signal })
    },
  }
}

export async function drain(calls: Connection, target: Target, options: DrainOptions = {}): Promise<DrainResult> {
  checkNames('drain', options, ['active', 'deadlineMs', 'signal', 'caller'])
  const { active, deadlineMs, signal } = options
  return readSlowly(calls, { ...target, body: { active, deadlineMs }, signal })
}

/** What the path of a resource names. Throws `invalid` for anything else than a name or a reference. */
export function named(ref: RefLike): Ref {
  const given: unknown = ref
  if (typeof given !== 'string' && !(isObject(given) && typeof given['name'] === 'string')) {
    throw new FleetError('invalid', `expected a name or { namespace, name }, but got ${shown(given)}`)
  }
  const { name, namespace = 'default' } = typeof ref === 'string' ? { name: ref } : ref
  return { namespace, name }
}

const defaultLimit = 500

/**
 * Reads a list whole or in pages. `owner` is `builds` or `servers`. `list` returns the operation for this filter; `native` converts an
 * item of any format.
 */
function listCalls<T, F extends object>(
  calls: Connection,
  owner: string,
  filters: readonly (keyof F & string)[],
  list: (filter: Partial<F>) => Target,
  native?: (item: T) => T,
) {
  /** The host checks the values. Without a limit, it would answer with the whole list. */
  const read = (options: PageOptions & Partial<F>) => {
    const { limit = defaultLimit, continue: token, signal } = options
    return readPage<T>(calls, { ...list(options), query: { limit, continue: token }, signal }, native)
  }
  return {
    async list(options: CallOptions & Partial<F> = {}): Promise<readonly T[]> {
      checkNames(`${owner}.list`, options, [...filters, 'signal'])
      return (await readPage<T>(calls, { ...list(options), signal: options.signal }, native)).items
    },
    async page(options: PageOptions & Partial<F> = {}): Promise<Page<T>> {
      checkNames(`${owner}.page`, options, [...filters, 'limit', 'continue', 'signal'])
      return read(options)
    },
    all(options: AllOptions & Partial<F> = {}): AsyncGenerator<T, void> {
      checkNames(`${owner}.all`, options, [...filters, 'limit', 'signal'])
      return itemsOf((next) => read({ ...options, continue: next }))
    },
  }
}

/** In a compatibility format, a list is an object with `items`, and what the native format lists alone is an object by itself. */
async function readPage<T>(calls: Connection, call: Call, native?: (item: T) => T): Promise<Page<T>> {
  const { value, headers } = await calls.answer<unknown>(call)
  const next = headers.get(continueHeader)
  // As everywhere, the client takes the host's word for the type.
  const items = (isObject(value) ? (value['items'] ?? [value]) : value) as readonly T[]
  return { items: native ? items.map(native) : items, ...(next !== null && { continue: next }) }
}
