/** What the OpenAPI document says about each operation. */
import { defaultLimits } from '../../contracts/options.js'
import { confirmTimeoutMs } from '../../rules/planning/allocation.js'
import { allocation, allocationRequest, guidAllocationRequest } from '../../rules/schemas/allocation.js'
import { buildInput, buildPatch, gameServerBuild } from '../../rules/schemas/build.js'
import { gameServerBuildDetail, gameServerDetail } from '../../rules/schemas/detail.js'
import { serverDataUpdate } from '../../rules/schemas/server-data.js'
import { reservationRequest } from '../../rules/schemas/reservation.js'
import { maintenanceRequest, maintenanceResult } from '../../rules/schemas/maintenance.js'
import { gameServer } from '../../rules/schemas/server.js'
import type { Compat } from '../api/compat.js'
import type { SessionIDs } from '../api/allocation.js'
import type { OperationName, ProbeName } from '../api/operations.js'
import type { BodySchema } from './json-schema.js'
import { allocateManyDoc } from './batch-docs.js'
import { observationDocs } from './observation-docs.js'
import { operatorDocs } from './operator-docs.js'
import { done, gameServerBuilds, gameServers, oneGameServerDetail } from './schemas.js'
import { sessionDocs } from './session-docs.js'
import {
  gameServerBuildList,
  gameServerDetailList,
  gameServerList,
  thundernetesBuild,
  thundernetesBuildInput,
} from './thundernetes.js'

export interface OperationDoc {
  readonly method: 'get' | 'post' | 'put' | 'patch' | 'delete'
  /** The path, with parameters in OpenAPI syntax: `{namespace}`. */
  readonly path: string
  readonly tag: 'allocation' | 'management' | 'observation'
  readonly summary: string
  readonly query?: readonly QueryParameter[]
  readonly headers?: readonly QueryParameter[]
  readonly body?: BodySchema
  /** Schema of a body that may be absent. */
  readonly optionalBody?: BodySchema
  /** Status returned on success. */
  readonly status: 200 | 201
  /** The response has the token of the next page in a header. */
  readonly isPaged?: true
  readonly answer: BodySchema | { readonly mediaType: string; readonly description: string }
  /** Error statuses in addition to those common to all operations. */
  readonly errors: readonly (400 | 404 | 409 | 413)[]
  /** Body of a 503 response, if it is not always an error. */
  readonly unavailable?: BodySchema
}

export interface QueryParameter {
  readonly name: string
  readonly description: string
  readonly schema: Readonly<Record<string, unknown>>
  /** The parameter may be present without a value. */
  readonly allowEmptyValue?: true
}

const builds = '/api/v1/gameserverbuilds'
const build = `${builds}/{namespace}/{name}`
const servers = '/api/v1/gameservers'
const server = `${servers}/{namespace}/{name}`
const node = '/api/v1/nodes/{node}'

const paged: Pick<OperationDoc, 'query' | 'isPaged'> = {
  query: [
    {
      name: 'limit',
      description: 'Maximum number of items. Default: 500 with `continue`, otherwise all items.',
      schema: { type: 'integer', minimum: 1, maximum: 10_000 },
    },
    {
      name: 'continue',
      description: 'The header `Gamekeeper-Continue` of the page before. Empty or absent: the first page.',
      schema: { type: 'string' },
      allowEmptyValue: true,
    },
  ],
  isPaged: true,
}

export type DocumentedName = OperationName | ProbeName

export interface DescriptionOptions {
  readonly compat?: Compat | undefined
  /** Which sessionIDs are accepted. Default: `any`. */
  readonly sessionIDs?: SessionIDs | undefined
  /** The fleet's `limits.maxWaitMs`. Default 60 s. */
  readonly maxWaitMs?: number | undefined
}

export function operationDocs(options: DescriptionOptions = {}): Readonly<Record<DocumentedName, OperationDoc>> {
  const { compat, sessionIDs, maxWaitMs = defaultLimits.maxWaitMs } = options
  const isThundernetes = compat === 'thundernetes'
  const request = sessionIDs === 'guid' ? guidAllocationRequest : allocationRequest
  const wait = {
    name: 'wait',
    description: 'Seconds to wait for a server when none is standing by.',
    schema: { type: 'number', minimum: 0, maximum: maxWaitMs / 1_000, default: 0 },
  }
  return {
    allocate: {
      method: 'post',
      path: '/api/v1/allocate',
      tag: 'allocation',
      summary: 'Allocates a server that is standing by. The same sessionID always gets the same server.',
      query: [
        wait,
        {
          name: 'confirm',
          description:
            'Whether to wait until the game has confirmed its session: as long as `wait` allows or, without `wait`, at most ' +
            `${confirmTimeoutMs(undefined, maxWaitMs) / 1_000} s. \`?confirm\` and \`?confirm=1\` also mean true.`,
          schema: { type: 'boolean', default: false },
          allowEmptyValue: true,
        },
      ],
      body: isThundernetes
        ? { ...request, id: 'ThundernetesAllocationRequest', unknownFields: 'ignore' as const }
        : request,
      status: 200,
      answer: allocation,
      errors: [400, 404, 413],
    },
    allocateMany: allocateManyDoc(request, wait),
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
      ...paged,
      summary: 'Lists all builds.',
      status: 200,
      answer: isThundernetes ? gameServerBuildList : gameServerBuilds,
      errors: [400],
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
      ...paged,
      summary: 'Lists the servers of a build.',
      status: 200,
      answer: isThundernetes ? gameServerList : gameServers,
      errors: isThundernetes ? [400] : [400, 404],
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
      ...paged,
      summary: 'Lists all servers.',
      status: 200,
      answer: isThundernetes ? gameServerList : gameServers,
      errors: [400],
    },
    getServer: {
      ...{ method: 'get', path: server, tag: 'management' },
      summary: 'Returns a server.',
      status: 200,
      answer: gameServer,
      errors: [404],
    },
    updateServer: {
      ...{ method: 'patch', path: server, tag: 'management' },
      summary: 'Changes labels, annotations, counters and lists of a server, all of them or none.',
      body: serverDataUpdate,
      status: 200,
      answer: gameServer,
      errors: [400, 404, 409, 413],
    },
    deleteServer: {
      ...{ method: 'delete', path: server, tag: 'management' },
      summary: 'Terminates a server after its grace period, and replaces it.',
      status: 200,
      answer: done,
      errors: [404],
    },
    reserveServer: {
      ...{ method: 'post', path: `${server}/reservation`, tag: 'management' },
      summary:
        'Reserves an idle server, or renews its reservation: it is only allocated to requests that name it, and neither scaled down nor replaced.',
      body: reservationRequest,
      status: 200,
      answer: gameServer,
      errors: [400, 404, 409, 413],
    },
    releaseServer: {
      ...{ method: 'delete', path: `${server}/reservation`, tag: 'management' },
      summary: 'Ends the reservation of a server.',
      status: 200,
      answer: gameServer,
      errors: [404],
    },
    announceServerMaintenance: {
      ...{ method: 'post', path: `${server}/maintenance`, tag: 'management' },
      summary: 'Announces maintenance to a server, which receives the time with its next heartbeats.',
      body: maintenanceRequest,
      status: 200,
      answer: maintenanceResult,
      errors: [400, 404, 413],
    },
    withdrawServerMaintenance: {
      ...{ method: 'delete', path: `${server}/maintenance`, tag: 'management' },
      summary: 'Withdraws what was announced to a server.',
      status: 200,
      answer: maintenanceResult,
      errors: [404],
    },
    announceNodeMaintenance: {
      ...{ method: 'post', path: `${node}/maintenance`, tag: 'management' },
      summary: 'Announces maintenance to all servers on a node, and to those that start there before it begins.',
      body: maintenanceRequest,
      status: 200,
      answer: maintenanceResult,
      errors: [400, 404, 413],
    },
    withdrawNodeMaintenance: {
      ...{ method: 'delete', path: `${node}/maintenance`, tag: 'management' },
      summary: 'Withdraws what was announced to all servers on a node.',
      status: 200,
      answer: maintenanceResult,
      errors: [404],
    },
    getServerDetail: {
      ...{ method: 'get', path: '/api/v1/gameserverdetails/{namespace}/{name}', tag: 'management' },
      summary: 'Returns the players connected to a server.',
      status: 200,
      answer: isThundernetes ? gameServerDetail : oneGameServerDetail,
      errors: [404],
    },
    ...operatorDocs(isThundernetes),
    ...sessionDocs,
    ...observationDocs,
  }
}
