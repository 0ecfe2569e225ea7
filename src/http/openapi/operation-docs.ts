/** What the OpenAPI document says about each operation. */
import { defaultLimits } from '../../contracts/options.js'
import { allocation, allocationRequest } from '../../rules/schemas/allocation.js'
import { buildInput, buildPatch, gameServerBuild } from '../../rules/schemas/build.js'
import { gameServerBuildDetail, gameServerDetail } from '../../rules/schemas/detail.js'
import { gameServer } from '../../rules/schemas/server.js'
import type { Compat } from '../api/compat.js'
import type { OperationName, ProbeName } from '../api/operations.js'
import type { BodySchema } from './json-schema.js'
import { done, gameServerBuilds, gameServers, health, oneGameServerDetail, readiness, unready } from './schemas.js'
import {
  gameServerBuildList,
  gameServerDetailList,
  gameServerList,
  thundernetesBuild,
  thundernetesBuildInput,
} from './thundernetes.js'

export interface OperationDoc {
  readonly method: 'get' | 'post' | 'patch' | 'delete'
  /** The path, with parameters in OpenAPI syntax: `{namespace}`. */
  readonly path: string
  readonly tag: 'allocation' | 'management' | 'observation'
  readonly summary: string
  readonly query?: readonly QueryParameter[]
  readonly headers?: readonly QueryParameter[]
  readonly body?: BodySchema
  /** Status returned on success. */
  readonly status: 200 | 201
  readonly answer: BodySchema | { readonly mediaType: string; readonly description: string }
  /** Error statuses in addition to those common to all operations. */
  readonly errors: readonly (400 | 404 | 413)[]
  /** Body of a 503 response, if it is not always an error. */
  readonly unavailable?: BodySchema
}

export interface QueryParameter {
  readonly name: string
  readonly description: string
  readonly schema: Readonly<Record<string, unknown>>
}

const builds = '/api/v1/gameserverbuilds'
const build = `${builds}/{namespace}/{name}`
const servers = '/api/v1/gameservers'
const server = `${servers}/{namespace}/{name}`

export type DocumentedName = OperationName | ProbeName

export interface DescriptionOptions {
  readonly compat?: Compat | undefined
  /** The fleet's `limits.maxWaitMs`. Default 60 s. */
  readonly maxWaitMs?: number | undefined
}

export function operationDocs({ compat, maxWaitMs = defaultLimits.maxWaitMs }: DescriptionOptions = {}): Readonly<
  Record<DocumentedName, OperationDoc>
> {
  const isThundernetes = compat === 'thundernetes'
  return {
    allocate: {
      method: 'post',
      path: '/api/v1/allocate',
      tag: 'allocation',
      summary: 'Allocates a server that is standing by. The same sessionID always gets the same server.',
      query: [
        {
          name: 'wait',
          description: 'Seconds to wait for a server when none is standing by.',
          schema: { type: 'number', minimum: 0, maximum: maxWaitMs / 1_000, default: 0 },
        },
      ],
      body: allocationRequest,
      status: 200,
      answer: allocation,
      errors: [400, 404, 413],
    },
    createBuild: {
      ...{ method: 'post', path: builds, tag: 'management' },
      summary: 'Creates a build. The build is durable when the call returns; its servers start afterwards.',
      body: isThundernetes ? thundernetesBuildInput : buildInput,
      status: isThundernetes ? 201 : 200,
      answer: isThundernetes ? thundernetesBuild : gameServerBuild,
      errors: [400, 413],
    },
    listBuilds: {
      ...{ method: 'get', path: builds, tag: 'management' },
      summary: 'Lists all builds.',
      status: 200,
      answer: isThundernetes ? gameServerBuildList : gameServerBuilds,
      errors: [],
    },
    getBuild: {
      ...{ method: 'get', path: build, tag: 'management' },
      summary: 'Returns a build.',
      status: 200,
      answer: isThundernetes ? thundernetesBuild : gameServerBuild,
      errors: [404],
    },
    patchBuild: {
      ...{ method: 'patch', path: build, tag: 'management' },
      summary: 'Changes standingBy, max or both. Never terminates an Active server.',
      body: buildPatch,
      status: 200,
      answer: isThundernetes ? thundernetesBuild : gameServerBuild,
      errors: [400, 404, 413],
    },
    deleteBuild: {
      ...{ method: 'delete', path: build, tag: 'management' },
      summary: 'Deletes a build and terminates all its servers, Active ones included.',
      status: 200,
      answer: done,
      errors: [404],
    },
    listServersOfBuild: {
      ...{ method: 'get', path: `${build}/gameservers`, tag: 'management' },
      summary: 'Lists the servers of a build.',
      status: 200,
      answer: isThundernetes ? gameServerList : gameServers,
      errors: isThundernetes ? [] : [404],
    },
    getBuildDetail: {
      ...{ method: 'get', path: `${build}/gameserverdetails`, tag: 'management' },
      summary: 'Returns the players connected to the servers of a build.',
      status: 200,
      answer: isThundernetes ? gameServerDetailList : gameServerBuildDetail,
      errors: isThundernetes ? [] : [404],
    },
    listServers: {
      ...{ method: 'get', path: servers, tag: 'management' },
      summary: 'Lists all servers.',
      status: 200,
      answer: isThundernetes ? gameServerList : gameServers,
      errors: [],
    },
    getServer: {
      ...{ method: 'get', path: server, tag: 'management' },
      summary: 'Returns a server.',
      status: 200,
      answer: gameServer,
      errors: [404],
    },
    deleteServer: {
      ...{ method: 'delete', path: server, tag: 'management' },
      summary: 'Terminates a server after its grace period, and replaces it.',
      status: 200,
      answer: done,
      errors: [404],
    },
    getServerDetail: {
      ...{ method: 'get', path: '/api/v1/gameserverdetails/{namespace}/{name}', tag: 'management' },
      summary: 'Returns the players connected to a server.',
      status: 200,
      answer: isThundernetes ? gameServerDetail : oneGameServerDetail,
      errors: [404],
    },
    readEvents: {
      ...{ method: 'get', path: '/api/v1/events', tag: 'observation' },
      summary: 'Streams the events of the fleet as server-sent events.',
      query: [
        {
          name: 'from',
          description: 'Number of the first event to send. Default: the next one.',
          schema: { type: 'integer', minimum: 0, maximum: 999_999_999_999_999 },
        },
      ],
      headers: [
        {
          name: 'Last-Event-ID',
          description: 'The `id` of the last event received: the stream continues after it.',
          schema: { type: 'string', pattern: '^(([A-Za-z0-9_-]{1,64}-)?[0-9]{1,15})?$' },
        },
      ],
      status: 200,
      answer: {
        mediaType: 'text/event-stream',
        description: 'Each `data:` is a FleetEvent as JSON; each `id:` is a value for Last-Event-ID.',
      },
      errors: [400],
    },
    readMetrics: {
      ...{ method: 'get', path: '/metrics', tag: 'observation' },
      summary: 'Returns the metrics of this host in the Prometheus text format.',
      status: 200,
      answer: { mediaType: 'text/plain', description: 'Metrics.' },
      errors: [],
    },
    checkHealth: {
      method: 'get',
      path: '/healthz',
      tag: 'observation',
      summary: 'Liveness: whether this process responds.',
      status: 200,
      answer: health,
      errors: [],
    },
    checkReadiness: {
      method: 'get',
      path: '/readyz',
      tag: 'observation',
      summary: 'Readiness: whether this host accepts calls.',
      status: 200,
      answer: readiness,
      errors: [],
      unavailable: unready,
    },
  }
}
