/** The client's calls for builds, servers and details. Each sends one request to the management API. */
import { FleetError } from '../contracts/errors.js'
import type {
  AppliedBuild,
  Builds,
  Details,
  MaintenanceResult,
  MaintenanceTarget,
  ServerFilter,
  Servers,
} from '../contracts/fleet.js'
import { checkNames } from '../contracts/option-checks.js'
import type { DrainOptions, DrainResult } from '../contracts/options.js'
import type { RefLike } from '../rules/model/resources.js'
import type { GameServer, GameServerBuild, GameServerBuildDetail, GameServerDetail } from '../rules/model/wire.js'
import { isObject, shown } from '../rules/validation/problem.js'
import type { Call, Connection } from './connection.js'
import { listCalls, readPage } from './lists.js'
import { readLogs, readSlowly } from './read-slowly.js'

/** Base URL of the management API. Throws `invalid` if the client has none. */
export type Management = () => string

/** The call may be repeated even if the outcome of the first attempt is unknown. */
export const isIdempotent = true

export function buildCalls(calls: Connection, management: Management): Builds {
  const builds = () => `${management()}/gameserverbuilds`
  const one = (ref: RefLike) => at(builds(), ref)
  const build = async (call: Call) => nativeBuild(await calls.json<GameServerBuild>(call))
  return {
    create: async (input, { signal } = {}) => build({ method: 'POST', url: builds(), body: input, signal }),
    async apply(input, { signal } = {}) {
      const given: unknown = input
      if (!isObject(given) || !isObject(given['metadata'])) {
        throw new FleetError('invalid', 'builds.apply takes a build with metadata and spec')
      }
      const call = { method: 'PUT', url: one(input.metadata), body: input, isIdempotent, signal } as const
      const applied = await calls.json<AppliedBuild>(call)
      return { ...applied, build: nativeBuild(applied.build) }
    },
    ...listCalls<GameServerBuild, object>(calls, 'builds', [], builds, nativeBuild),
    get: async (ref, { signal } = {}) => build({ url: one(ref), isIdempotent, signal }),
    patch: async (ref, change, { signal } = {}) =>
      build({ method: 'PATCH', url: one(ref), body: change, isIdempotent, signal }),
    async update(ref, change, { signal } = {}) {
      // JSON has no undefined, which removes a field.
      const body = isObject(change)
        ? Object.fromEntries(Object.entries(change).map(([field, value]) => [field, value ?? null]))
        : change
      return build({ method: 'PATCH', url: `${one(ref)}/spec`, body, isIdempotent, signal })
    },
    drain: async (ref, options) => drainAt(calls, one(ref), options),
    resume: async (ref, { signal } = {}) =>
      build({ method: 'POST', url: `${one(ref)}/resume`, body: {}, isIdempotent, signal }),
    delete: async (ref, { signal } = {}) => deleteAt(calls, one(ref), signal),
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

export function serverCalls(calls: Connection, management: Management): Servers {
  const servers = () => `${management()}/gameservers`
  const one = (ref: RefLike) => at(servers(), ref)
  const serversOf = ({ build }: ServerFilter) =>
    build === undefined ? servers() : `${at(`${management()}/gameserverbuilds`, build)}/gameservers`
  const maintenance = (target: MaintenanceTarget) =>
    typeof target === 'object' && !('name' in target)
      ? `${management()}/nodes/${segment(target.node)}/maintenance`
      : `${one(target)}/maintenance`
  return {
    ...listCalls<GameServer, ServerFilter>(calls, 'servers', ['build'], serversOf),
    get: async (ref, { signal } = {}) => calls.json<GameServer>({ url: one(ref), isIdempotent, signal }),
    update: async (ref, change, { signal } = {}) =>
      calls.json<GameServer>({ method: 'PATCH', url: one(ref), body: change, signal }),
    drain: async (ref, options) => drainAt(calls, one(ref), options),
    async announceMaintenance(target, begin, { signal } = {}) {
      const body = { at: rfc3339(begin) }
      return calls.json<MaintenanceResult>({ method: 'POST', url: maintenance(target), body, isIdempotent, signal })
    },
    withdrawMaintenance: async (target, { signal } = {}) =>
      calls.json<MaintenanceResult>({ method: 'DELETE', url: maintenance(target), isIdempotent, signal }),
    reserve: async (ref, { forMs, signal }) =>
      calls.json<GameServer>({
        ...({ method: 'POST', url: `${one(ref)}/reservation`, body: { forMs }, isIdempotent } as const),
        signal,
      }),
    release: async (ref, { signal } = {}) =>
      calls.json<GameServer>({ method: 'DELETE', url: `${one(ref)}/reservation`, isIdempotent, signal }),
    delete: async (ref, { signal } = {}) => deleteAt(calls, one(ref), signal),
    logs(ref, options = {}) {
      checkNames('logs', options, ['follow', 'tail', 'signal'])
      return readLogs(calls, `${one(ref)}/logs`, options)
    },
    async writeStdin(ref, line, { signal } = {}) {
      await calls.send({ method: 'POST', url: `${one(ref)}/stdin`, body: { line }, signal })
    },
  }
}

export function detailCalls(calls: Connection, management: Management): Details {
  return {
    async get(ref, { signal } = {}) {
      const url = at(`${management()}/gameserverdetails`, ref)
      const { items } = await readPage<GameServerDetail>(calls, { url, signal })
      const [detail] = items
      if (detail === undefined) throw new FleetError('internal', `${url} answered with an empty list`)
      return detail
    },
    async ofBuild(ref, { signal } = {}) {
      const url = `${at(`${management()}/gameserverbuilds`, ref)}/gameserverdetails`
      return calls.json<GameServerBuildDetail>({ url, isIdempotent, signal })
    },
  }
}

/** Drains what `url` names. */
export async function drainAt(calls: Connection, url: string, options: DrainOptions = {}): Promise<DrainResult> {
  checkNames('drain', options, ['active', 'deadlineMs', 'signal', 'caller'])
  const { active, deadlineMs, signal } = options
  return readSlowly(calls, { method: 'POST', url: `${url}/drain`, body: { active, deadlineMs }, signal })
}

/** Address of a resource in a collection. Throws `invalid` for anything else than a name or a reference. */
export function at(collection: string, ref: RefLike): string {
  const given: unknown = ref
  if (typeof given !== 'string' && !(isObject(given) && typeof given['name'] === 'string')) {
    throw new FleetError('invalid', `expected a name or { namespace, name }, but got ${shown(given)}`)
  }
  const { name, namespace = 'default' } = typeof ref === 'string' ? { name: ref } : ref
  return `${collection}/${segment(namespace)}/${segment(name)}`
}

/**
 * A part of a path. A URL can contain neither an empty one nor one of dots, which would lead to another resource; nothing has such a
 * name. Throws `invalid`.
 */
export function segment(id: string): string {
  const given: unknown = id
  if (typeof given === 'string' && !/^\.{0,2}$|\p{Cs}/u.test(given)) return encodeURIComponent(given)
  throw new FleetError('invalid', `an id or name must be a string other than "", . and .., but is ${shown(given)}`)
}

export async function deleteAt(calls: Connection, url: string, signal: AbortSignal | undefined): Promise<void> {
  await calls.send({ method: 'DELETE', url, signal })
}

/** Sends an invalid time unchanged, so that the host rejects it with an error that contains the value. */
function rfc3339(begin: Date | number): unknown {
  const time = new Date(begin)
  return Number.isNaN(time.getTime()) ? begin : time.toISOString()
}
