/** Calls a fleet over HTTP. Has the same methods as `Fleet`, so that code can accept either. */
import type { CallOptions } from '../contracts/call-options.js'
import { FleetError } from '../contracts/errors.js'
import type { AllocateOptions, Builds, Details, Fleet, Servers } from '../contracts/fleet.js'
import type { AllocationRequest, RefLike } from '../rules/model/resources.js'
import type {
  Allocation,
  GameServer,
  GameServerBuild,
  GameServerBuildDetail,
  GameServerDetail,
} from '../rules/model/wire.js'
import { Connection, type ConnectionOptions } from './connection.js'
import { readEvents } from './read-events.js'

export interface FleetClientOptions extends ConnectionOptions {
  /** Base URL for all routes, such as `https://api.example/fleet`. In a browser, a path is enough. */
  readonly url?: string
  /** Base URL for the allocation API, if it differs from `url`. `serve` returns both URLs. */
  readonly allocationUrl?: string
  /** Base URL for the management API and events, if it differs from `url`. */
  readonly managementUrl?: string
}

/** The methods of a fleet that are available over HTTP. They fail with the same error codes. */
export interface FleetClient {
  readonly builds: Pick<Builds, 'create' | 'list' | 'get' | 'patch' | 'delete'>
  readonly servers: Pick<Servers, 'list' | 'get' | 'delete'>
  readonly details: Details
  /** Retried if the response is lost: the same sessionID always gets the same server. */
  allocate(request: AllocationRequest, options?: AllocateOptions): Promise<Allocation>
  /**
   * Yields numbered events until the signal fires: first those in the host's log, then new ones. If the connection is lost,
   * reconnects and continues after the last event. Throws errors that reconnecting cannot fix.
   */
  events: Fleet['events']
}

const api = '/api/v1'

/** Throws `invalid` if no URL is given. Connects on the first call. */
export function fleetClient(options: FleetClientOptions): FleetClient {
  const { url, allocationUrl = url, managementUrl = url } = options
  const calls = new Connection(options)
  const management = () => baseOf(managementUrl, 'managementUrl')
  const builds = () => `${management()}/gameserverbuilds`
  const servers = () => `${management()}/gameservers`
  if (allocationUrl === undefined && managementUrl === undefined) {
    throw new FleetError('invalid', 'fleetClient needs url, or allocationUrl and managementUrl')
  }
  for (const base of [allocationUrl, managementUrl]) if (base !== undefined) checkUrl(base)
  /**
   * Converts a list response to an array. The response is an array, or an object if the host uses a compatibility format.
   */
  const list = async <T>(call: Parameters<typeof calls.json>[0]): Promise<readonly T[]> => {
    const items = await calls.json<readonly T[] | { readonly metadata: unknown }>(call)
    if (!('metadata' in items)) return items
    throw new FleetError(
      'unsupported',
      `${call.url} answers in a compatibility format (compat); the client needs the native one`,
    )
  }

  const deleteAt = async (target: string, signal: AbortSignal | undefined) => {
    await calls.text({ method: 'DELETE', url: target, signal })
  }

  return {
    builds: {
      create: (build, { signal } = {}) =>
        calls.json<GameServerBuild>({ method: 'POST', url: builds(), body: build, signal }),
      list: ({ signal } = {}) => list<GameServerBuild>({ url: builds(), isIdempotent, signal }),
      get: (ref, { signal } = {}) => calls.json<GameServerBuild>({ url: at(builds(), ref), isIdempotent, signal }),
      patch: (ref, change, { signal } = {}) =>
        calls.json<GameServerBuild>({ method: 'PATCH', url: at(builds(), ref), body: change, isIdempotent, signal }),
      delete: (ref, { signal } = {}) => deleteAt(at(builds(), ref), signal),
    },
    servers: {
      list: ({ build, signal }: CallOptions & { readonly build?: RefLike } = {}) =>
        list<GameServer>({
          url: build === undefined ? servers() : `${at(builds(), build)}/gameservers`,
          isIdempotent,
          signal,
        }),
      get: (ref, { signal } = {}) => calls.json<GameServer>({ url: at(servers(), ref), isIdempotent, signal }),
      delete: (ref, { signal } = {}) => deleteAt(at(servers(), ref), signal),
    },
    details: {
      async get(ref, { signal } = {}) {
        const url = at(`${management()}/gameserverdetails`, ref)
        const [detail] = await list<GameServerDetail>({ url, isIdempotent, signal })
        if (detail === undefined) throw new FleetError('internal', `${url} answered with an empty list`)
        return detail
      },
      ofBuild: (ref, { signal } = {}) =>
        calls.json<GameServerBuildDetail>({ url: `${at(builds(), ref)}/gameserverdetails`, isIdempotent, signal }),
    },
    allocate: (request, { waitMs = 0, signal } = {}) => {
      const url = `${baseOf(allocationUrl, 'allocationUrl')}/allocate`
      return calls.json<Allocation>({ method: 'POST', url, body: request, isIdempotent, waitMs, signal })
    },
    events: (reading) => readEvents(calls, `${management()}/events`, reading),
  }
}

/** The call may be repeated even if the outcome of the first attempt is unknown. */
const isIdempotent = true

/** In a browser, a path is relative to the page's origin. */
function checkUrl(url: string): void {
  const isGood = url.startsWith('/') || (/^https?:/i.test(url) && URL.canParse(url))
  if (!isGood)
    throw new FleetError('invalid', `fleetClient: a url must begin with http://, https:// or /, but is ${url}`)
}

function baseOf(url: string | undefined, option: string): string {
  if (url === undefined) throw new FleetError('invalid', `fleetClient needs ${option} for this call`)
  return `${url.replace(/\/+$/, '')}${api}`
}

function at(collection: string, ref: RefLike): string {
  const { name, namespace = 'default' } = typeof ref === 'string' ? { name: ref } : ref
  return `${collection}/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`
}
