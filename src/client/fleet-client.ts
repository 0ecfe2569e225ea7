/** Calls a fleet over HTTP. Has the same methods as `Fleet`, so that code can accept either. */
import type { CallOptions } from '../contracts/call-options.js'
import { errorCodes, type ErrorDetails, FleetError } from '../contracts/errors.js'
import type {
  AllocateOptions,
  Builds,
  Details,
  Fleet,
  FleetHealth,
  FleetProblem,
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
import { AllocatedServer, type Allocation, type BatchResult, type Sessions } from '../contracts/sessions.js'
import type { AllocationInput } from '../rules/model/allocation-request.js'
import { namedPorts } from '../rules/model/ports.js'
import type { AllocationBody } from '../rules/model/wire.js'
import { buildCalls, detailCalls, drain, named, serverCalls, sessionCalls } from './calls.js'
import { Connection, type ConnectionOptions, to } from './connection.js'
import { readEvents } from './streams.js'

export interface FleetClientOptions extends ConnectionOptions {
  /** Base URL for all routes, such as `https://api.example/fleet`. In a browser, a path is enough. */
  readonly url?: string
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
  /** What is wrong with the host that answers, and with the fleet if it leads. */
  problems: Fleet['problems']
  /** Health of the host that answers. Unlike `fleet.health`, rejects if no host answers. */
  health(options?: CallOptions): Promise<FleetHealth>
  explain: Fleet['explain']
  /**
   * Drains the fleet on the host that answers, until that host restarts. Like the drains of builds and servers, resolves when the host
   * says that it is over, and rejects with `unavailable` if the connection is lost before: the drain continues.
   */
  drain: Fleet['drain']
}

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
  grpcUrl: aString,
  agentAddress: aString,
  handOver: aFunction,
  close: aFunction,
}

/** Throws `invalid` if no URL is given. Connects on the first call. */
export function fleetClient(options: FleetClientOptions): FleetClient {
  checkOptions('fleetClient', options, { ...optionTypes, ...servedTypes })
  const { url, allocationUrl = url, managementUrl = url } = options
  if (allocationUrl === undefined && managementUrl === undefined) {
    throw new FleetError('invalid', 'fleetClient needs url, or allocationUrl and managementUrl')
  }
  for (const base of [allocationUrl, managementUrl]) if (base !== undefined) checkUrl(base)
  const calls = new Connection({
    ...options,
    ...(allocationUrl !== undefined && { allocationUrl }),
    ...(managementUrl !== undefined && { managementUrl }),
  })
  return {
    builds: buildCalls(calls),
    servers: serverCalls(calls),
    details: detailCalls(calls),
    sessions: sessionCalls(calls),
    async allocate(request, options = {}) {
      checkNames('allocate', options, ['waitMs', 'confirm', 'signal', 'caller'])
      const { waitMs, confirm = false, signal } = options
      const call = { ...to('allocate'), body: request, waitMs, confirm, signal }
      return allocationFrom(await calls.json<AllocationBody>(call))
    },
    async allocateMany(requests, options = {}) {
      checkNames('allocateMany', options, ['atomic', 'waitMs', 'signal', 'caller'])
      const { atomic = false, waitMs, signal } = options
      const answer = await calls.json<BatchBody>({
        ...to('allocateMany'),
        body: { requests, atomic },
        waitMs,
        signal,
      })
      return answer.results.map(batchResultFrom)
    },
    events: (reading) => readEvents(calls, to('readEvents'), reading),
    stats: async ({ signal } = {}) => calls.json<FleetStats>({ ...to('readStats'), signal }),
    problems: async ({ signal } = {}) => calls.json<readonly FleetProblem[]>({ ...to('readProblems'), signal }),
    async activity(options = {}) {
      checkNames('activity', options, ['build', 'signal'])
      const { build, signal } = options
      const target = build === undefined ? to('readActivity') : to('readBuildActivity', named(build))
      return calls.json<FleetActivity>({ ...target, signal })
    },
    health: async ({ signal } = {}) => calls.json<FleetHealth>({ ...to('readHealth'), signal }),
    explain: async (ref, { signal } = {}) => calls.json<ServerHistory>({ ...to('explainServer', named(ref)), signal }),
    drain: async (options) => drain(calls, to('drainFleet'), options),
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

/** Converts the response to an allocation to what `fleet.allocate` returns. */
function allocationFrom(body: AllocationBody): Allocation {
  if (body.details)
    return new AllocatedServer(body, body.details.server, body.details.ports, body.details.buildMismatch)
  // The host uses a compatibility format, which says neither the server's name nor the names of its ports.
  return new AllocatedServer(body, { namespace: '', name: '' }, namedPorts(pairsIn(body.Ports), new Map()))
}

interface BatchBody {
  readonly results: readonly {
    readonly sessionID: string
    readonly allocation?: AllocationBody
    readonly error?: { readonly code: string; readonly message: string; readonly details?: ErrorDetails }
  }[]
}

function batchResultFrom({ sessionID, allocation, error }: BatchBody['results'][number]): BatchResult {
  if (allocation) return { sessionID, allocation: allocationFrom(allocation) }
  const code = errorCodes.find((known) => known === error?.code) ?? 'internal'
  return { sessionID, error: new FleetError(code, error?.message ?? '', { details: error?.details }) }
}

function pairsIn(ports = '') {
  const pairs = ports === '' ? [] : ports.split(',')
  return pairs.map((pair) => {
    const [container, number] = pair.split(':').map(Number)
    return { container: container ?? 0, public: number ?? 0 }
  })
}
