/** Schemas of an allocation: the request and the response. */
import { sizeLimits } from '../model/sizes.js'
import { allocatedPorts, guid, initialPlayers, kib, namespace, serverRef, sessionID } from './common.js'
import { allocationOrder, serverSelectors } from './selection.js'
import { serverDataUpdate } from './server-data.js'
import type { MapSchema, ObjectSchema } from './schema.js'

const { labels, annotations, counters, lists } = serverDataUpdate.properties

const ignoredTexts = {
  type: 'object',
  description: 'Ignored.',
  additionalProperties: { type: 'string', mayBeEmpty: true },
} as const satisfies MapSchema

export const allocationRequest = {
  id: 'AllocationRequest',
  type: 'object',
  unknownFields: 'refuse',
  expected: 'an allocation request object',
  description: 'A request to allocate a server to a session: one of a build, or one that fits a selector.',
  required: ['sessionID'],
  alternatives: [['buildID'], ['select'], ['server']],
  properties: {
    buildID: {
      type: 'string',
      minLength: 1,
      description: 'The spec.buildID of the build to allocate from. Exactly one of this, select and server is set.',
      examples: ['85ffe8da-c82f-4035-86c5-9d2b5f42d6f6'],
    },
    select: serverSelectors,
    server: {
      type: 'object',
      unknownFields: 'refuse',
      expected: 'an object with the name of a server',
      description:
        'The server to allocate, also if it is reserved. It has to be standing by, since such a request does not wait. Not beside order.',
      required: ['name'],
      properties: {
        name: { type: 'string', minLength: 1, description: 'Name of the server.', examples: ['arena-k3x9q'] },
        namespace: { ...namespace, description: 'Namespace of the server. Default: `default`.' },
        // The metadata of a server may be given as they are.
        creationTimestamp: { type: 'string', description: 'Ignored.' },
        labels: ignoredTexts,
        annotations: ignoredTexts,
      },
    },
    order: allocationOrder,
    sessionID: {
      ...sessionID,
      description:
        'The same sessionID always gets the same server. Spaces are allowed only between other characters. GUIDs are compared without regard to case, all other ids exactly.',
      examples: ['3f2504e0-4f89-41d3-9a0c-0305e82c3301', 'ranked/eu-7'],
    },
    sessionCookie: {
      type: 'string',
      maxBytes: sizeLimits.sessionCookieBytes,
      description: `Passed to the game server through its SDK. At most ${kib(sizeLimits.sessionCookieBytes)} of UTF-8.`,
    },
    initialPlayers: {
      ...initialPlayers,
      description: `Ids of the players who are expected to connect first. Passed to the game server through its SDK. At most ${sizeLimits.initialPlayers} ids, with at most ${sizeLimits.playerIDBytes} bytes of UTF-8 each and ${kib(sizeLimits.initialPlayersBytes)} together.`,
      examples: [['amie']],
    },
    labels: { ...labels, description: 'Labels to set on the server together with the session; null removes one.' },
    annotations: {
      ...annotations,
      description: 'Annotations to set on the server together with the session; null removes one.',
    },
    counters: {
      ...counters,
      description:
        'Changes of counters, together with the session. A server that they would take out of range does not fit.',
    },
    lists: {
      ...lists,
      description: 'Changes of lists, together with the session. A server that they would overfill does not fit.',
    },
  },
} as const satisfies ObjectSchema

/** What a game sends to take its own server. */
export const ownAllocationRequest = {
  type: 'object',
  unknownFields: 'refuse',
  expected: 'an object, which may be empty',
  properties: {
    sessionID: allocationRequest.properties.sessionID,
    sessionCookie: allocationRequest.properties.sessionCookie,
    initialPlayers: allocationRequest.properties.initialPlayers,
    endedSession: {
      type: 'object',
      unknownFields: 'refuse',
      expected: 'an object with sessionID and number',
      required: ['sessionID', 'number'],
      properties: { sessionID, number: { type: 'integer', minimum: 1 } },
    },
  },
} as const satisfies ObjectSchema

/** The request where only GUIDs are accepted. */
export const guidAllocationRequest = {
  ...allocationRequest,
  properties: {
    ...allocationRequest.properties,
    sessionID: {
      ...guid,
      description: 'A GUID. The same sessionID always gets the same server.',
      examples: ['3f2504e0-4f89-41d3-9a0c-0305e82c3301'],
    },
  },
} as const satisfies ObjectSchema

const allocationDetails = {
  id: 'AllocationDetails',
  type: 'object',
  description: 'More about the server of a session.',
  required: ['server', 'address', 'ports'],
  properties: {
    server: serverRef,
    address: { type: 'string', description: 'The same as IPV4Address.', examples: ['203.0.113.9'] },
    ports: allocatedPorts,
    buildMismatch: {
      type: 'object',
      description: 'Present if the session already had a server of another build than the requested one.',
      required: ['requested', 'actual'],
      properties: {
        requested: { type: 'string', description: 'The buildID in the request.' },
        actual: { type: 'string', description: "The buildID of the server's build." },
      },
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
    SessionID: { type: 'string', description: 'The sessionID of the request.' },
    details: { ...allocationDetails, description: 'Absent in a compatibility format.' },
  },
} as const satisfies ObjectSchema
