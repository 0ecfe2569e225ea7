/** Calls a fleet over HTTP. Has the same methods as `Fleet`, so that code can accept either. */
import type { CallOptions } from '../contracts/call-options.js'
import { FleetError } from '../contracts/errors.js'
import type {
  AllocateOptions,
  Builds,
  Details,
  Fleet,
  FleetHealth,
  FleetStats,
  ServerHistory,
  Servers,
} from '../contracts/fleet.js'
import {
  aFunction,
  aNumber,
  anObject,
  aString,
  checkNames,
  checkOptions,
  type OptionTypes,
} from '../contracts/option-checks.js'
import type { FleetActivity } from '../contracts/observer.js'
import type { Allocation, Sessions } from '../contracts/sessions.js'
import type { AllocationInput } from '../rules/model/allocation.js'
import type { AllocationBody } from '../rules/model/wire.js'
import { allocationFrom, type BatchBody, batchResultFrom } from './allocation.js'
import { Connection, type ConnectionOptions } from './connection.js'
import { readEvents } from './read-events.js'
import { at, buildCalls, detailCalls, drainAt, isIdempotent, serverCalls } from './resource-calls.js'
import { sessionCalls } from './session-calls.js'

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
  readonly builds: Builds
  readonly servers: Servers
  readonly details: Details
  readonly sessions: Sessions
  /** Retried if the response is lost: the same sessionID always gets the same server. */
  allocate(request: AllocationInput, options?: AllocateOptions): Promise<Allocation>
  /** Retried like `allocate`. */
  allocateMany: Fleet['allocateMany']
  /**
   * Yields numbered events until the signal fires: first those in the host's log, then new ones. If the connection is lost,
   * reconnects and continues after the last event. Throws errors that reconnecting cannot fix.
   */
  events: Fleet['events']
  /** Statistics of the host that answers. */
  stats(options?: CallOptions): Promise<FleetStats>
  /** The last hour of the host that answers, if it leads. */
  activity: Fleet['activity']
  /** Health of the host that answers. Unlike `fleet.health`, rejects if no host answers. */
  health(options?: CallOptions): Promise<FleetHealth>
  explain: Fleet['explain']
  /**
   * Drains the fleet on the host that answers, until that host restarts. Like the drains of builds and servers, resolves when the host
   * says that it is over, and rejects with `unavailable` if the connection is lost before: the drain continues.
   */
  drain: Fleet['drain']
}

const api = '/api/v1'

const optionTypes: OptionTypes<FleetClientOptions> = {
  url: aString,
  allocationUrl: aString,
  managementUrl: aString,
  token: {
    must: 'must be a string, or a function that returns one',
    is: (value) => aString.is(value) || aFunction.is(value),
  },
  headers: anObject,
  timeoutMs: aNumber,
  retries: aNumber,
  fetch: aFunction,
}

/** What `serve` returns besides the URLs of the APIs: its result may be spread into the options. */
const servedTypes = {
  healthUrl: aString,
  forwardingUrl: aString,
  agentAddress: aString,
  handOver: aFunction,
  close: aFunction,
}

/** Throws `invalid` if no URL is given. Connects on the first call. */
export function fleetClient(options: FleetClientOptions): FleetClient {
  checkOptions('fleetClient', options, { ...optionTypes, ...servedTypes })
  const { url, allocationUrl = url, managementUrl = url } = options
  const calls = new Connection(options)
  const management = () => baseOf(managementUrl, 'managementUrl')
  if (allocationUrl === undefined && managementUrl === undefined) {
    throw new FleetError('invalid', 'fleetClient needs url, or allocationUrl and managementUrl')
  }
  for (const base of [allocationUrl, managementUrl]) if (base !== undefined) checkUrl(base)
  return {
    builds: buildCalls(calls, management),
    servers: serverCalls(calls, management),
    details: detailCalls(calls, management),
    sessions: sessionCalls(calls, management),
    async allocate(request, options = {}) {
      checkNames('allocate', options, ['waitMs', 'confirm', 'signal', 'caller'])
      const { waitMs, confirm = false, signal } = options
      const url = `${baseOf(allocationUrl, 'allocationUrl')}/allocate`
      return allocationFrom(
        await calls.json<AllocationBody>({ method: 'POST', url, body: request, isIdempotent, waitMs, confirm, signal }),
      )
    },
    async allocateMany(requests, options = {}) {
      checkNames('allocateMany', options, ['atomic', 'waitMs', 'signal', 'caller'])
      const { atomic = false, waitMs, signal } = options
      const url = `${baseOf(allocationUrl, 'allocationUrl')}/allocate-many`
      const body = { requests, atomic }
      const answer = await calls.json<BatchBody>({ method: 'POST', url, body, isIdempotent, waitMs, signal })
      return answer.results.map(batchResultFrom)
    },
    events: (reading) => readEvents(calls, `${management()}/events`, reading),
    stats: async ({ signal } = {}) => calls.json<FleetStats>({ url: `${management()}/stats`, isIdempotent, signal }),
    async activity(options = {}) {
      checkNames('activity', options, ['build', 'signal'])
      const { build, signal } = options
      const url = build === undefined ? management() : at(`${management()}/gameserverbuilds`, build)
      return calls.json<FleetActivity>({ url: `${url}/activity`, isIdempotent, signal })
    },
    health: async ({ signal } = {}) => calls.json<FleetHealth>({ url: `${management()}/health`, isIdempotent, signal }),
    explain: async (server, { signal } = {}) =>
      calls.json<ServerHistory>({ url: `${at(`${management()}/gameservers`, server)}/history`, isIdempotent, signal }),
    drain: async (options) => drainAt(calls, management(), options),
  }
}

/** In a browser, a path is relative to the page's origin. */
function checkUrl(url: string): void {
  const isGood = url.startsWith('/') || (/^https?:/i.test(url) && URL.canParse(url))
  if (!isGood)
    throw new FleetError('invalid', `fleetClient: a url must begin with http://, https:// or /, but is ${url}`)
  if (url.startsWith('/')) return
  const { username, password } = new URL(url)
  if (username + password === '') return
  // `fetch` would refuse it, and quote the password.
  throw new FleetError('invalid', 'fleetClient: a url must not contain a user or password; set token instead')
}

function baseOf(url: string | undefined, option: string): string {
  if (url === undefined) throw new FleetError('invalid', `fleetClient needs ${option} for this call`)
  return `${url.replace(/\/+$/, '')}${api}`
}
