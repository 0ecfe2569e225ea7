/**
 * What the OpenAPI document says about each operation, besides its row in the table of operations: words, and the schemas of bodies.
 */
import type { OptionType } from '../../contracts/option-checks.js'
import { defaultLimits } from '../../contracts/options.js'
import { confirmTimeoutMs } from '../../rules/model/allocation-request.js'
import { allocation, allocationRequest, guidAllocationRequest } from '../../rules/validation/allocation-schema.js'
import { buildInput, buildPatch, gameServerBuildSchema } from '../../rules/validation/build-schema.js'
import {
  drainRequest,
  drainResult,
  gameServerBuildDetailSchema,
  gameServerDetailSchema,
  gameServerSchema,
  maintenanceRequest,
  maintenanceResult,
  reservationRequest,
  stdinRequest,
} from '../../rules/validation/server-schema.js'
import {
  gameSessionSchema,
  joinRequest,
  roomQuery,
  seatRelease,
  seatRequest,
} from '../../rules/validation/session-schema.js'
import { serverDataUpdateSchema } from '../../rules/lifecycle/server-data.js'
import type { OperationName, ProbeName, QueryParameterName } from '../operations.js'
import { allocatorResponse, allocatorError, allocatorRequest } from './agones-schemas.js'
import type { BodySchema } from './json-schema.js'
import {
  appliedBuild,
  appliedThundernetesBuild,
  batchAnswer,
  batchRequest,
  buildUpdate,
  done,
  demandRecording,
  fleetActivity,
  fleetHealth,
  fleetProblems,
  serverUsage,
  fleetStats,
  gameServerBuildList,
  gameServerBuilds,
  gameServerDetailList,
  gameServerList,
  gameServers,
  gameSessions,
  health,
  oneGameServerDetail,
  readiness,
  serverHistory,
  sessionOrEnd,
  thundernetesBuild,
  thundernetesBuildInput,
  unhealthy,
  unready,
} from './schemas.js'

export const compatFormats = ['thundernetes', 'agones'] as const

/**
 * `thundernetes`: the JSON of that project's GameServer API replaces gamekeeper's own. `agones`: the allocation API also answers
 * `POST /gameserverallocation`, in the JSON of Agones' allocator.
 */
export type Compat = (typeof compatFormats)[number]

export const compatType: OptionType = {
  must: `must be ${compatFormats.map((format) => `'${format}'`).join(' or ')}`,
  is: (value) => compatFormats.some((format) => format === value),
}

/** `guid`: GUIDs only, as in the service description. `any`: 1 to 128 visible characters. */
export type SessionIDs = 'guid' | 'any'

export interface DescriptionOptions {
  readonly compat?: Compat | undefined
  /** Which sessionIDs are accepted. Default: `any`. */
  readonly sessionIDs?: SessionIDs | undefined
  /** The fleet's `limits.maxWaitMs`. Default 60 s. */
  readonly maxWaitMs?: number | undefined
}

export interface OperationDoc {
  /** Default: the API of the operation. */
  readonly tag?: 'observation'
  readonly summary: string
  /** What it waits for with `?wait=`. */
  readonly wait?: string
  readonly headers?: readonly Parameter[]
  readonly body?: BodySchema
  /** The body may be absent. */
  readonly isBodyOptional?: true
  /** Status returned on success. Default 200. */
  readonly status?: 201
  readonly answer: BodySchema | { readonly mediaType: string; readonly description: string }
  /**
   * Error statuses besides those of all operations. Default: 400 and 413 for a body, 400 for query parameters, and 404 for parameters of
   * the path.
   */
  readonly errors?: readonly (400 | 404 | 409 | 413)[]
  /** Body of the errors. Default: gamekeeper's own. */
  readonly errorBody?: BodySchema
  /** Body of a 503 response, if it is not always an error. */
  readonly unavailable?: BodySchema
}

interface Parameter {
  readonly name: string
  readonly description: string
  readonly schema: Readonly<Record<string, unknown>>
  /** The parameter may be present without a value. */
  readonly allowEmptyValue?: true
}

export type DocumentedName = OperationName | ProbeName

/** `wait`: what the operation waits for. */
export function queryDocs(
  { maxWaitMs = defaultLimits.maxWaitMs }: DescriptionOptions,
  wait = '',
): Readonly<Record<QueryParameterName, Omit<Parameter, 'name'>>> {
  return {
    limit: {
      description: 'Maximum number of items. Default: 500 with `continue`, otherwise all items.',
      schema: { type: 'integer', minimum: 1, maximum: 10_000 },
    },
    continue: {
      description: 'The header `Gamekeeper-Continue` of the page before. Empty or absent: the first page.',
      schema: { type: 'string' },
      allowEmptyValue: true,
    },
    wait: { description: wait, schema: { type: 'number', minimum: 0, maximum: maxWaitMs / 1_000, default: 0 } },
    confirm: {
      description:
        'Whether to wait until the game has confirmed its session: as long as `wait` allows or, without `wait`, at most ' +
        `${confirmTimeoutMs(undefined, maxWaitMs) / 1_000} s. \`?confirm\` and \`?confirm=1\` also mean true.`,
      schema: { type: 'boolean', default: false },
      allowEmptyValue: true,
    },
    follow: {
      description: 'Whether to go on with new lines until the server has ended.',
      schema: { type: 'boolean', default: false },
      allowEmptyValue: true,
    },
    tail: {
      description: 'Maximum number of existing lines, counted from the end. Default: all.',
      schema: { type: 'integer', minimum: 0, maximum: 999_999_999_999_999 },
    },
    origin: {
      description:
        'Whether each line begins with its time (RFC 3339) and with stdout or stderr, each followed by a blank. - stands for what is unknown.',
      schema: { type: 'boolean', default: false },
      allowEmptyValue: true,
    },
    from: {
      description: 'Number of the first event to send. Default: the next one.',
      schema: { type: 'integer', minimum: 0, maximum: 999_999_999_999_999 },
    },
    last: {
      description:
        'How many of the newest events in the log to begin with. Has no effect with `from` or Last-Event-ID.',
      schema: { type: 'integer', minimum: 0, maximum: 999_999_999_999_999 },
    },
    to: {
      description:
        'Number of the last event to send, after which the stream ends. Default: it goes on with new events.',
      schema: { type: 'integer', minimum: 0, maximum: 999_999_999_999_999 },
    },
    types: {
      description: 'Names of the types of events to send, separated by commas. Default: all.',
      schema: { type: 'string' },
    },
    players: {
      description: 'Whether `PlayersChanged` is sent, too: only the latest for each server, without an `id`.',
      schema: { type: 'boolean', default: false },
    },
  }
}

const waitForServer = 'Seconds to wait for a server when none is standing by.'
const drainAnswer =
  'The answer is sent when no servers remain, or at the deadline. A line break is sent every 15 s until then. If the caller disconnects, the drain continues.'

export function operationDocs({ compat, sessionIDs }: DescriptionOptions = {}): Readonly<
  Record<DocumentedName, OperationDoc>
> {
  const isThundernetes = compat === 'thundernetes'
  const request = sessionIDs === 'guid' ? guidAllocationRequest : allocationRequest
  const thundernetesRequest = { ...request, id: 'ThundernetesAllocationRequest', unknownFields: 'ignore' } as const
  const input = isThundernetes ? thundernetesBuildInput : buildInput
  const build = isThundernetes ? thundernetesBuild : gameServerBuildSchema
  const servers = isThundernetes ? gameServerList : gameServers
  return {
    allocate: {
      summary: 'Allocates a server that is standing by. The same sessionID always gets the same server.',
      wait: waitForServer,
      body: isThundernetes ? thundernetesRequest : request,
      answer: allocation,
      errors: [400, 404, 413],
    },
    allocateMany: {
      summary: 'Allocates servers to several sessions: as many as there are servers for, or all or none.',
      wait: waitForServer,
      body: batchRequest(request),
      answer: batchAnswer,
      errors: [400, 404, 413],
    },
    allocateAsAgones: {
      summary:
        "Allocates a server to a caller of Agones' allocator. Only with `compat: 'agones'`. Calls with the same Idempotency-Key get the same server.",
      wait: `${waitForServer} The header \`Prefer: wait=<seconds>\` means the same.`,
      headers: [
        {
          name: 'Idempotency-Key',
          description: 'The sessionID, unless an annotation has it. Default: a new GUID.',
          schema: { type: 'string' },
        },
      ],
      body: allocatorRequest,
      answer: allocatorResponse,
      errors: [400, 409, 413],
      errorBody: allocatorError,
    },
    listBuilds: { summary: 'Lists all builds.', answer: isThundernetes ? gameServerBuildList : gameServerBuilds },
    createBuild: {
      summary: 'Creates a build. The build is durable when the call returns; its servers start afterwards.',
      body: input,
      ...(isThundernetes && { status: 201 }),
      answer: build,
    },
    applyBuild: {
      summary: 'Creates a build, or gives the existing build exactly this spec. Says which.',
      body: input,
      answer: isThundernetes ? appliedThundernetesBuild : appliedBuild,
      errors: [400, 413],
    },
    getBuild: { summary: 'Returns a build.', answer: build },
    patchBuild: {
      summary: 'Changes standingBy, max or both. Never terminates an Active server.',
      body: buildPatch,
      answer: build,
    },
    updateBuild: { summary: 'Changes any part of a spec except its buildID.', body: buildUpdate, answer: build },
    drainBuild: {
      summary: `Stops allocating and creating servers until the build is resumed, and terminates idle servers. ${drainAnswer}`,
      body: drainRequest,
      isBodyOptional: true,
      answer: drainResult,
    },
    readDemand: {
      summary: 'Returns the demand for a build on the last days, minute by minute, as it was recorded.',
      answer: demandRecording,
      errors: [404],
    },
    resumeBuild: { summary: 'Ends the drain of a build.', answer: build, errors: [400, 404, 413] },
    deleteBuild: { summary: 'Deletes a build and terminates all its servers, Active ones included.', answer: done },
    listServers: { summary: 'Lists all servers.', answer: servers },
    listServersOfBuild: {
      summary: 'Lists the servers of a build.',
      answer: servers,
      ...(isThundernetes && { errors: [400] }),
    },
    getServer: { summary: 'Returns a server.', answer: gameServerSchema },
    updateServer: {
      summary: 'Changes labels, annotations, counters and lists of a server, all of them or none.',
      body: serverDataUpdateSchema,
      answer: gameServerSchema,
      errors: [400, 404, 409, 413],
    },
    explainServer: {
      summary: 'Explains why a server is in its current state or was terminated.',
      answer: serverHistory,
    },
    readLogs: {
      summary: 'Sends what a server has written to stdout and stderr, as text.',
      answer: {
        mediaType: 'text/plain',
        description: 'One line per line. With `Accept: text/event-stream`: each `data:` is a line as a JSON string.',
      },
    },
    readUsage: { summary: 'Measures the CPU and memory that a running server uses.', answer: serverUsage },
    writeStdin: {
      summary: 'Sends a line to the standard input of a server whose build has `stdin: true`.',
      body: stdinRequest,
      answer: done,
      errors: [400, 404, 409, 413],
    },
    drainServer: {
      summary: `Terminates and replaces a server: at once if it is idle, after its match if it is Active. ${drainAnswer}`,
      body: drainRequest,
      isBodyOptional: true,
      answer: drainResult,
    },
    deleteServer: { summary: 'Terminates a server after its grace period, and replaces it.', answer: done },
    reserveServer: {
      summary:
        'Reserves an idle server, or renews its reservation: it is only allocated to requests that name it, and neither scaled down nor replaced.',
      body: reservationRequest,
      answer: gameServerSchema,
      errors: [400, 404, 409, 413],
    },
    releaseServer: { summary: 'Ends the reservation of a server.', answer: gameServerSchema },
    announceServerMaintenance: {
      summary: 'Announces maintenance to a server, which receives the time with its next heartbeats.',
      body: maintenanceRequest,
      answer: maintenanceResult,
    },
    withdrawServerMaintenance: { summary: 'Withdraws what was announced to a server.', answer: maintenanceResult },
    announceNodeMaintenance: {
      summary: 'Announces maintenance to all servers on a node, and to those that start there before it begins.',
      body: maintenanceRequest,
      answer: maintenanceResult,
    },
    withdrawNodeMaintenance: {
      summary: 'Withdraws what was announced to all servers on a node.',
      answer: maintenanceResult,
    },
    listSessions: { summary: 'Lists the sessions that have a server.', answer: gameSessions },
    listSessionsOfBuild: { summary: 'Lists the sessions that have a server of a build.', answer: gameSessions },
    getSession: {
      summary: 'Returns a session and its server, or how it has ended.',
      wait: 'Seconds to wait for the end of the session. After that, the session is returned as it is.',
      answer: sessionOrEnd,
    },
    getSessionOfPlayer: {
      summary: 'Returns the session that a player is connected to, or else has a seat or is expected in.',
      answer: gameSessionSchema,
    },
    endSession: { summary: 'Ends a match: terminates its server with its grace period.', answer: done },
    reserveSeats: {
      summary: 'Holds seats for players who are on their way: for all of them, or for none.',
      body: seatRequest,
      answer: gameSessionSchema,
      errors: [400, 404, 409, 413],
    },
    releaseSeats: { summary: 'Frees seats that are held for players.', body: seatRelease, answer: gameSessionSchema },
    findSessionsWithRoom: {
      summary: 'Lists sessions with free seats, the fullest first. Changes nothing.',
      body: roomQuery,
      answer: gameSessions,
      errors: [400, 404, 413],
    },
    joinSession: {
      summary: 'Holds seats for players in the fullest session that has room for all of them, or in a new one.',
      wait: 'With orAllocate, seconds to wait for a server when none is standing by.',
      body: joinRequest,
      answer: gameSessionSchema,
      errors: [400, 404, 409, 413],
    },
    getBuildDetail: {
      summary: 'Returns the players connected to the servers of a build.',
      answer: isThundernetes ? gameServerDetailList : gameServerBuildDetailSchema,
      ...(isThundernetes && { errors: [] }),
    },
    getServerDetail: {
      summary: 'Returns the players connected to a server.',
      answer: isThundernetes ? gameServerDetailSchema : oneGameServerDetail,
    },
    drainFleet: {
      summary: `Stops allocating until this host restarts, and terminates idle servers. ${drainAnswer}`,
      body: drainRequest,
      isBodyOptional: true,
      answer: drainResult,
    },
    readStats: {
      tag: 'observation',
      summary: 'Returns statistics of this host and of each build.',
      answer: fleetStats,
    },
    readActivity: {
      tag: 'observation',
      summary: 'Returns what happened in the fleet in the last hour, minute by minute.',
      answer: fleetActivity,
    },
    readBuildActivity: {
      tag: 'observation',
      summary: 'Returns what happened in a build in the last hour, minute by minute.',
      answer: fleetActivity,
    },
    readProblems: {
      tag: 'observation',
      summary: 'Returns what is wrong with the fleet, the worst first, with what to do.',
      answer: fleetProblems,
    },
    readHealth: {
      tag: 'observation',
      summary: 'Returns whether this host accepts calls, and what prevents that.',
      answer: fleetHealth,
    },
    readEvents: {
      tag: 'observation',
      summary: 'Streams the events of the fleet as server-sent events.',
      headers: [
        {
          name: 'Last-Event-ID',
          description: 'The `id` of the last event received: the stream continues after it.',
          schema: { type: 'string', pattern: '^(([A-Za-z0-9_-]{1,64}-)?[0-9]{1,15})?$' },
        },
      ],
      answer: {
        mediaType: 'text/event-stream',
        description: 'Each `data:` is a FleetEvent as JSON; each `id:` is a value for Last-Event-ID.',
      },
    },
    readMetrics: {
      tag: 'observation',
      summary: 'Returns the metrics of this host in the Prometheus text format.',
      answer: { mediaType: 'text/plain', description: 'Metrics.' },
    },
    checkHealth: {
      tag: 'observation',
      summary: 'Liveness: whether this process responds, and could lead.',
      answer: health,
      unavailable: unhealthy,
    },
    checkReadiness: {
      tag: 'observation',
      summary: 'Readiness: whether this host accepts calls.',
      answer: readiness,
      unavailable: unready,
    },
  }
}
