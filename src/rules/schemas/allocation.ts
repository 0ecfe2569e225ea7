/** Schemas of an allocation: the request and the response. */
import { guid, playerIDs } from './common.js'
import type { ObjectSchema } from './schema.js'

export const allocationRequest = {
  id: 'AllocationRequest',
  type: 'object',
  unknownFields: 'ignore',
  expected: 'an allocation request object',
  description: 'A request to allocate a server of a build to a session.',
  required: ['buildID', 'sessionID'],
  properties: {
    buildID: {
      type: 'string',
      minLength: 1,
      description: 'The spec.buildID of the build to allocate from.',
      examples: ['85ffe8da-c82f-4035-86c5-9d2b5f42d6f6'],
    },
    sessionID: {
      ...guid,
      description: 'A GUID. The same sessionID always gets the same server.',
      examples: ['3f2504e0-4f89-41d3-9a0c-0305e82c3301'],
    },
    sessionCookie: { type: 'string', description: 'Passed to the game server through its SDK.' },
    initialPlayers: {
      ...playerIDs,
      description: 'Ids of the players who are expected to connect first. Passed to the game server through its SDK.',
      examples: [['amie']],
    },
  },
} as const satisfies ObjectSchema

export const allocation = {
  id: 'Allocation',
  type: 'object',
  description: 'The server that was allocated to a session.',
  required: ['IPV4Address', 'Ports', 'SessionID'],
  properties: {
    IPV4Address: {
      type: 'string',
      description: 'Address that players connect to.',
      examples: ['203.0.113.9'],
    },
    Ports: {
      type: 'string',
      description: 'Comma-separated `container:public` pairs. Players connect to the public port.',
      examples: ['7777:10003'],
    },
    SessionID: { ...guid, description: 'The sessionID of the request.' },
  },
} as const satisfies ObjectSchema
