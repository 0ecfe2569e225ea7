/** The definition of GameServerAllocation: the allocation request of the API, and its outcome. */
import { allocationDefaults } from '../../adapters/kubernetes/store/requested-allocations.js'
import { allocation, allocationRequest } from '../../src/rules/validation/allocation-schema.js'
import { time } from '../../src/rules/validation/shared-schemas.js'
import type { Resource } from './definitions.js'
import { eachOf, structural, type StructuralSchema, unbounded } from './structural-schema.js'

const text = { type: 'string' } as const
const { sessionID, ...request } = allocationRequest.properties
const { details } = allocation.properties

export const allocations: Resource = {
  kind: 'GameServerAllocation',
  shortNames: ['gka'],
  subresources: { status: {} },
  columns: [
    { name: 'State', type: 'string', jsonPath: '.status.state' },
    { name: 'Server', type: 'string', jsonPath: '.status.gameServer' },
    { name: 'Address', type: 'string', jsonPath: '.status.address' },
    { name: 'Port', type: 'integer', jsonPath: '.status.ports[0].public' },
    { name: 'Age', type: 'date', jsonPath: '.metadata.creationTimestamp' },
    { name: 'Session', type: 'string', jsonPath: '.status.sessionID', priority: 1 },
    { name: 'Reason', type: 'string', jsonPath: '.status.reason', priority: 1 },
    { name: 'Message', type: 'string', jsonPath: '.status.message', priority: 1 },
  ],
  schema: {
    description:
      'A request to allocate a server of this namespace to a session. The host that leads the fleet carries it out once. Deleting it does not end the match.',
    type: 'object',
    required: ['spec'],
    properties: { spec: spec(), status: status() },
  },
}

function spec(): StructuralSchema {
  const { waitSeconds, ttlSecondsAfterFinished } = allocationDefaults
  return {
    description: 'What is requested, as in the allocation API. Edits have no effect.',
    type: 'object',
    oneOf: [{ required: ['buildID'] }, { required: ['select'] }, { required: ['server'] }],
    properties: {
      ...eachOf(request, structural),
      sessionID: {
        ...structural(sessionID),
        description: `${sessionID.description} Default: metadata.uid.`,
      },
      waitSeconds: {
        description: 'How long to wait for a server, counted from the creation of this object.',
        ...{ type: 'integer', minimum: 0, maximum: 86_400, default: waitSeconds },
      },
      ttlSecondsAfterFinished: {
        description:
          'How long this object exists after it was Allocated or Failed. Removed earlier if its namespace has more than 1,000 such objects.',
        ...{ type: 'integer', minimum: 0, maximum: 31_536_000, default: ttlSecondsAfterFinished },
      },
    },
  }
}

function status(): StructuralSchema {
  const { address, ports } = details.properties
  return {
    description: 'The outcome. Absent until a host has seen the object.',
    type: 'object',
    properties: {
      state: {
        ...text,
        enum: ['Waiting', 'Allocated', 'Failed'],
        description: 'Waiting: for a server, until waitSeconds are over. Allocated and Failed are final.',
      },
      reason: { ...text, description: 'Why it is not Allocated: the error code, as in the allocation API.' },
      message: { ...text, description: 'The same as a sentence.' },
      sessionID: { ...text, description: 'The session that gets the server.' },
      gameServer: { ...text, description: 'Name of the GameServer that was allocated.' },
      address: { ...unbounded(address), description: 'Address that players connect to.' },
      ports: unbounded(ports),
      nodeName: { ...text, description: 'The node of the server.' },
      observedGeneration: {
        type: 'integer',
        format: 'int64',
        description: 'The metadata.generation of the spec that was carried out.',
      },
      finishedAt: { ...unbounded(time), description: 'When it was Allocated or Failed.' },
    },
  }
}
