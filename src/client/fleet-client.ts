/** The calls of a fleet, made over HTTP. Has the methods of `Fleet`, so that what takes one takes the other. */
import { FleetError } from '../contracts/errors.js'
import type { AllocateOptions, Builds, Details, Fleet, Servers } from '../contracts/fleet.js'
import type { CallOptions } from '../contracts/call-options.js'
import type { AllocationRequest, RefLike } from '../rules/model/resources.js'
import type {
  Allocation,
  GameServer,
  GameServerBuild,
  GameServerBuildDetail,
  GameServerDetail,
} from '../rules/model/wire.js'
import { connection, type ConnectionOptions } from './connection.js'
import { readEvents } from './read-events.js'

export interface FleetClientOptions extends ConnectionOptions {
  /** Where all routes are: `https://api.example/fleet`, which may be a path in a browser. */
  readonly url?: string
  /** Where allocation is, if not at `url`. What `serve` returns has both. */
  readonly allocationUrl?: string
  /** Where management and events are, if not at `url`. */
  readonly managementUrl?: string
}

/** What of a fleet can be called over HTTP. Fails as that does, with the same codes. */
export interface FleetClient {
  readonly builds: Pick<Builds, 'create' | 'list' | 'get' | 'patch' | 'delete'>
  readonly servers: Pick<Servers, 'list' | 'get' | 'delete'>
  readonly details: Details
  /** Safe to make again, so that it is when its answer was lost: the same sessionID always gets the same server. */
  allocate(request: AllocationRequest, options?: AllocateOptions): Promise<Allocation>
  /**
   * Events by number, from the host's log and then as they happen, until the signal fires. A connection that is lost is
   * made again, and the reading goes on where it was. Throws what connecting again cannot mend.
   */
  events: Fleet['events']
}

const api = '/api/v1'

/** Throws `invalid` when no URL is given. Connects when it is first called. */
export function fleetClient(options: FleetClientOptions): FleetClient {
  const { url, allocationUrl = url, managementUrl = url } = options
  const calls = connection(options)
  const management = () => baseOf(managementUrl, 'managementUrl')
  const builds = () => `${management()}/gameserverbuilds`
  const servers = () => `${management()}/gameservers`
  if (allocationUrl === undefined && managementUrl === undefined) {
    throw new FleetError('invalid', 'fleetClient needs url, or allocationUrl and managementUrl')
  }
  for (const given of [allocationUrl, managementUrl]) if (given !== undefined) checkUrl(given)
  /** What is an array in our own shapes, and another thing in those of another project. */
  const list = async <T>(call: Parameters<typeof calls.json>[0]): Promise<readonly T[]> => {
    const items = await calls.json<readonly T[] | { readonly metadata: unknown }>(call)
    if (!('metadata' in items)) return items
    throw new FleetError('unsupported', `${call.url} answers in the shapes of another project (compat), not in ours`)
  }

  return {
    builds: {
      create: (build, { signal } = {}) =>
        calls.json<GameServerBuild>({ method: 'POST', url: builds(), body: build, signal }),
      list: ({ signal } = {}) => list<GameServerBuild>({ url: builds(), isSafe, signal }),
      get: (ref, { signal } = {}) => calls.json<GameServerBuild>({ url: at(builds(), ref), isSafe, signal }),
      patch: (ref, change, { signal } = {}) =>
        calls.json<GameServerBuild>({ method: 'PATCH', url: at(builds(), ref), body: change, isSafe, signal }),
      delete: (ref, { signal } = {}) => calls.nothing({ method: 'DELETE', url: at(builds(), ref), signal }),
    },
    servers: {
      list: ({ build, signal }: CallOptions & { readonly build?: RefLike } = {}) =>
        list<GameServer>({
          url: build === undefined ? servers() : `${at(builds(), build)}/gameservers`,
          isSafe,
          signal,
        }),
      get: (ref, { signal } = {}) => calls.json<GameServer>({ url: at(servers(), ref), isSafe, signal }),
      delete: (ref, { signal } = {}) => calls.nothing({ method: 'DELETE', url: at(servers(), ref), signal }),
    },
    details: {
      async get(ref, { signal } = {}) {
        const url = at(`${management()}/gameserverdetails`, ref)
        const [detail] = await list<GameServerDetail>({ url, isSafe, signal })
        if (detail === undefined) throw new FleetError('internal', `${url} answered with no detail`)
        return detail
      },
      ofBuild: (ref, { signal } = {}) =>
        calls.json<GameServerBuildDetail>({ url: `${at(builds(), ref)}/gameserverdetails`, isSafe, signal }),
    },
    allocate: (request, { waitMs = 0, signal } = {}) => {
      const url = `${baseOf(allocationUrl, 'allocationUrl')}/allocate`
      return calls.json<Allocation>({ method: 'POST', url, body: request, isSafe, waitMs, signal })
    },
    events: (reading) => readEvents(calls, `${management()}/events`, reading),
  }
}

/** The call may be made again though nobody knows what has become of it. */
const isSafe = true

/** A path is one of the page's own origin, in a browser. */
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
