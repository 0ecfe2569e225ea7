/** What the OpenAPI document says of each operation. One that is added to `operations` must be told of here. */
import type * as z from 'zod'
import type { Compat } from '../api/compat.js'
import type { OperationName, ProbeName } from '../api/operations.js'
import {
  allocation,
  allocationRequest,
  buildInput,
  buildPatch,
  done,
  gameServer,
  gameServerBuild,
  gameServerBuildDetail,
  gameServerBuildList,
  gameServerBuilds,
  gameServerDetail,
  gameServerDetailList,
  gameServerList,
  gameServers,
  health,
  oneGameServerDetail,
  otherBuild,
  otherBuildInput,
  readiness,
  unready,
} from './schemas.js'

export interface Described {
  readonly method: 'get' | 'post' | 'patch' | 'delete'
  /** As OpenAPI writes it: `{namespace}`. */
  readonly path: string
  readonly tag: 'allocation' | 'management' | 'observation'
  readonly summary: string
  readonly query?: readonly QueryParameter[]
  readonly headers?: readonly QueryParameter[]
  readonly body?: z.ZodType
  /** The answer when all is well. */
  readonly status: 200 | 201
  readonly answer: z.ZodType | { readonly type: string; readonly description: string }
  /** Statuses of errors that it has besides those which every operation has. */
  readonly errors: readonly (400 | 404 | 413)[]
  /** What a 503 holds, when that is not only an error. */
  readonly unavailable?: z.ZodType
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

export type DescribedName = OperationName | ProbeName

export function describedOperations(compat?: Compat): Readonly<Record<DescribedName, Described>> {
  const isOther = compat === 'thundernetes'
  return {
    allocate: {
      method: 'post',
      path: '/api/v1/allocate',
      tag: 'allocation',
      summary: 'Hands out a server that stands by. The same sessionID always gets the same one.',
      query: [
        {
          name: 'wait',
          description: 'Seconds to wait for a server when none stands by.',
          schema: { type: 'number', minimum: 0, maximum: 60, default: 0 },
        },
      ],
      body: allocationRequest,
      status: 200,
      answer: allocation,
      errors: [400, 404, 413],
    },
    createBuild: {
      ...{ method: 'post', path: builds, tag: 'management' },
      summary: 'Creates a build. It is durable when this is answered; its servers follow.',
      body: isOther ? otherBuildInput : buildInput,
      status: isOther ? 201 : 200,
      answer: isOther ? otherBuild : gameServerBuild,
      errors: [400, 413],
    },
    listBuilds: {
      ...{ method: 'get', path: builds, tag: 'management' },
      summary: 'All builds.',
      status: 200,
      answer: isOther ? gameServerBuildList : gameServerBuilds,
      errors: [],
    },
    getBuild: {
      ...{ method: 'get', path: build, tag: 'management' },
      summary: 'A build.',
      status: 200,
      answer: isOther ? otherBuild : gameServerBuild,
      errors: [404],
    },
    patchBuild: {
      ...{ method: 'patch', path: build, tag: 'management' },
      summary: 'Changes standingBy, max or both. Never ends a server with players on it.',
      body: buildPatch,
      status: 200,
      answer: isOther ? otherBuild : gameServerBuild,
      errors: [400, 404, 413],
    },
    deleteBuild: {
      ...{ method: 'delete', path: build, tag: 'management' },
      summary: 'Deletes a build and ends all its servers, those with players included.',
      status: 200,
      answer: done,
      errors: [404],
    },
    listServersOfBuild: {
      ...{ method: 'get', path: `${build}/gameservers`, tag: 'management' },
      summary: 'The servers of a build.',
      status: 200,
      answer: isOther ? gameServerList : gameServers,
      errors: isOther ? [] : [404],
    },
    getBuildDetail: {
      ...{ method: 'get', path: `${build}/gameserverdetails`, tag: 'management' },
      summary: 'Who is connected to the servers of a build.',
      status: 200,
      answer: isOther ? gameServerDetailList : gameServerBuildDetail,
      errors: isOther ? [] : [404],
    },
    listServers: {
      ...{ method: 'get', path: servers, tag: 'management' },
      summary: 'All servers.',
      status: 200,
      answer: isOther ? gameServerList : gameServers,
      errors: [],
    },
    getServer: {
      ...{ method: 'get', path: server, tag: 'management' },
      summary: 'A server.',
      status: 200,
      answer: gameServer,
      errors: [404],
    },
    deleteServer: {
      ...{ method: 'delete', path: server, tag: 'management' },
      summary: 'Ends a server, which is told, has its grace period, and is replaced.',
      status: 200,
      answer: done,
      errors: [404],
    },
    getServerDetail: {
      ...{ method: 'get', path: '/api/v1/gameserverdetails/{namespace}/{name}', tag: 'management' },
      summary: 'Who is connected to a server.',
      status: 200,
      answer: isOther ? gameServerDetail : oneGameServerDetail,
      errors: [404],
    },
    readEvents: {
      ...{ method: 'get', path: '/api/v1/events', tag: 'observation' },
      summary: 'What happens in the fleet, as it happens, as server-sent events.',
      query: [
        {
          name: 'from',
          description: 'The number of the first event wanted. Default: the next one to happen.',
          schema: { type: 'integer', minimum: 0, maximum: 999_999_999_999_999 },
        },
      ],
      headers: [
        {
          name: 'Last-Event-ID',
          description: 'The `id` of the last event that was read: the stream goes on behind it.',
          schema: { type: 'string', pattern: '^(([A-Za-z0-9_-]{1,64}-)?[0-9]{1,15})?$' },
        },
      ],
      status: 200,
      answer: {
        type: 'text/event-stream',
        description: 'Each `data:` holds a FleetEvent as JSON, each `id:` what to come again with.',
      },
      errors: [400],
    },
    readMetrics: {
      ...{ method: 'get', path: '/metrics', tag: 'observation' },
      summary: 'The metrics of this host, in the text format of Prometheus.',
      status: 200,
      answer: { type: 'text/plain', description: 'Metrics.' },
      errors: [],
    },
    checkHealth: {
      method: 'get',
      path: '/healthz',
      tag: 'observation',
      summary: 'Whether this process answers.',
      status: 200,
      answer: health,
      errors: [],
    },
    checkReadiness: {
      method: 'get',
      path: '/readyz',
      tag: 'observation',
      summary: 'Whether calls can be sent to this host.',
      status: 200,
      answer: readiness,
      errors: [],
      unavailable: unready,
    },
  }
}
