/** What the OpenAPI document says about a batch of allocations. */
import { errorCodes } from '../../contracts/errors.js'
import { sizeLimits } from '../../rules/model/sizes.js'
import { allocation, type allocationRequest, type guidAllocationRequest } from '../../rules/schemas/allocation.js'
import type { ObjectSchema } from '../../rules/schemas/schema.js'
import type { OperationDoc, QueryParameter } from './operation-docs.js'

const batchResult = {
  id: 'BatchResult',
  type: 'object',
  description: 'What one session of a batch got: a server, or an error.',
  required: ['sessionID'],
  properties: {
    sessionID: { type: 'string', description: 'The sessionID of the request.' },
    allocation: { ...allocation, description: 'The server of the session. Absent if there is an error.' },
    error: {
      type: 'object',
      description: 'Why the session got no server. Absent if it has one.',
      required: ['code', 'message'],
      properties: {
        code: { type: 'string', enum: errorCodes, description: 'The error code.', examples: ['none-standing-by'] },
        message: { type: 'string', description: 'A sentence that says what is wrong.' },
        details: {
          type: 'object',
          properties: {},
          unknownFields: 'keep',
          description: 'Facts about the failure, for programs.',
        },
      },
    },
  },
} as const satisfies ObjectSchema

const batchAnswer = {
  id: 'BatchAnswer',
  type: 'object',
  description: 'The result of each allocation.',
  required: ['results'],
  properties: { results: { type: 'array', items: batchResult, description: 'In the order of the requests.' } },
} as const satisfies ObjectSchema

/** `request`: the schema of one allocation. */
export function allocateManyDoc(
  request: typeof allocationRequest | typeof guidAllocationRequest,
  wait: QueryParameter,
): OperationDoc {
  return {
    ...{ method: 'post', path: '/api/v1/allocate-many', tag: 'allocation' },
    summary: 'Allocates servers to several sessions: as many as there are servers for, or all or none.',
    query: [wait],
    body: {
      id: 'BatchRequest',
      type: 'object',
      unknownFields: 'refuse',
      expected: 'an object with requests',
      description: 'Several allocations, and whether all of them or none are made.',
      required: ['requests'],
      properties: {
        requests: {
          type: 'array',
          items: request,
          minItems: 1,
          maxItems: sizeLimits.batch,
          description: `At most ${sizeLimits.batch} requests, each for another session.`,
        },
        atomic: {
          type: 'boolean',
          description: 'If true, all sessions get a server, or the call fails and none does. Default: false.',
        },
      },
    } as const satisfies ObjectSchema,
    status: 200,
    answer: batchAnswer,
    errors: [400, 404, 413],
  }
}
