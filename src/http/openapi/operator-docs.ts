/** What the OpenAPI document says about the operations that the service description does not have. */
import { buildInput, gameServerBuild } from '../../rules/schemas/build.js'
import { drainRequest, drainResult } from '../../rules/schemas/drain.js'
import { stdinRequest } from '../../rules/schemas/stdin.js'
import type { OperationDoc } from './operation-docs.js'
import {
  appliedBuild,
  appliedThundernetesBuild,
  buildUpdate,
  fleetActivity,
  fleetHealth,
  fleetStats,
  serverHistory,
} from './report-schemas.js'
import { done } from './schemas.js'
import { thundernetesBuild, thundernetesBuildInput } from './thundernetes.js'

const build = '/api/v1/gameserverbuilds/{namespace}/{name}'
const server = '/api/v1/gameservers/{namespace}/{name}'

const drainAnswer =
  'The answer is sent when no servers remain, or at the deadline. A line break is sent every 15 s until then. If the caller disconnects, the drain continues.'

type OperatorOperation =
  | 'applyBuild'
  | 'updateBuild'
  | 'drainBuild'
  | 'resumeBuild'
  | 'drainServer'
  | 'drainFleet'
  | 'readLogs'
  | 'writeStdin'
  | 'explainServer'
  | 'readStats'
  | 'readActivity'
  | 'readBuildActivity'
  | 'readHealth'

export function operatorDocs(isThundernetes: boolean): Readonly<Record<OperatorOperation, OperationDoc>> {
  return {
    applyBuild: {
      ...{ method: 'put', path: build, tag: 'management' },
      summary: 'Creates a build, or gives the existing build exactly this spec. Says which.',
      body: isThundernetes ? thundernetesBuildInput : buildInput,
      status: 200,
      answer: isThundernetes ? appliedThundernetesBuild : appliedBuild,
      errors: [400, 413],
    },
    updateBuild: {
      ...{ method: 'patch', path: `${build}/spec`, tag: 'management' },
      summary: 'Changes any part of a spec except its buildID.',
      body: buildUpdate,
      status: 200,
      answer: isThundernetes ? thundernetesBuild : gameServerBuild,
      errors: [400, 404, 413],
    },
    drainBuild: {
      ...{ method: 'post', path: `${build}/drain`, tag: 'management' },
      summary: `Stops allocating and creating servers until the build is resumed, and terminates idle servers. ${drainAnswer}`,
      optionalBody: drainRequest,
      status: 200,
      answer: drainResult,
      errors: [400, 404, 413],
    },
    resumeBuild: {
      ...{ method: 'post', path: `${build}/resume`, tag: 'management' },
      summary: 'Ends the drain of a build.',
      status: 200,
      answer: isThundernetes ? thundernetesBuild : gameServerBuild,
      errors: [400, 404, 413],
    },
    drainServer: {
      ...{ method: 'post', path: `${server}/drain`, tag: 'management' },
      summary: `Terminates and replaces a server: at once if it is idle, after its match if it is Active. ${drainAnswer}`,
      optionalBody: drainRequest,
      status: 200,
      answer: drainResult,
      errors: [400, 404, 413],
    },
    drainFleet: {
      ...{ method: 'post', path: '/api/v1/drain', tag: 'management' },
      summary: `Stops allocating until this host restarts, and terminates idle servers. ${drainAnswer}`,
      optionalBody: drainRequest,
      status: 200,
      answer: drainResult,
      errors: [400, 413],
    },
    readLogs: {
      ...{ method: 'get', path: `${server}/logs`, tag: 'management' },
      summary: 'Sends what a server has written to stdout and stderr, as text.',
      query: [
        {
          name: 'follow',
          description: 'Whether to go on with new lines until the server has ended.',
          schema: { type: 'boolean', default: false },
          allowEmptyValue: true,
        },
        {
          name: 'tail',
          description: 'Maximum number of existing lines, counted from the end. Default: all.',
          schema: { type: 'integer', minimum: 0, maximum: 999_999_999_999_999 },
        },
      ],
      status: 200,
      answer: {
        mediaType: 'text/plain',
        description: 'One line per line. With `Accept: text/event-stream`: each `data:` is a line as a JSON string.',
      },
      errors: [400, 404],
    },
    writeStdin: {
      ...{ method: 'post', path: `${server}/stdin`, tag: 'management' },
      summary: 'Sends a line to the standard input of a server whose build has `stdin: true`.',
      body: stdinRequest,
      status: 200,
      answer: done,
      errors: [400, 404, 409, 413],
    },
    explainServer: {
      ...{ method: 'get', path: `${server}/history`, tag: 'management' },
      summary: 'Explains why a server is in its current state or was terminated.',
      status: 200,
      answer: serverHistory,
      errors: [404],
    },
    readStats: {
      ...{ method: 'get', path: '/api/v1/stats', tag: 'observation' },
      summary: 'Returns statistics of this host and of each build.',
      status: 200,
      answer: fleetStats,
      errors: [],
    },
    readActivity: {
      ...{ method: 'get', path: '/api/v1/activity', tag: 'observation' },
      summary: 'Returns what happened in the fleet in the last hour, minute by minute.',
      status: 200,
      answer: fleetActivity,
      errors: [],
    },
    readBuildActivity: {
      ...{ method: 'get', path: `${build}/activity`, tag: 'observation' },
      summary: 'Returns what happened in a build in the last hour, minute by minute.',
      status: 200,
      answer: fleetActivity,
      errors: [404],
    },
    readHealth: {
      ...{ method: 'get', path: '/api/v1/health', tag: 'observation' },
      summary: 'Returns whether this host accepts calls, and what prevents that.',
      status: 200,
      answer: fleetHealth,
      errors: [],
    },
  }
}
