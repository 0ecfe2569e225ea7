/** Schema of a GameServer. */
import { healths, serverStates } from '../model/resources.js'
import { apiVersion, metadata, time } from './common.js'
import { serverData } from './server-data.js'
import type { ObjectSchema } from './schema.js'

export const gameServer = {
  id: 'GameServer',
  type: 'object',
  description: 'One game server.',
  required: ['apiVersion', 'kind', 'metadata', 'status'],
  properties: {
    apiVersion,
    kind: { type: 'string', const: 'GameServer', description: 'The type of the object.' },
    metadata: {
      ...metadata,
      id: 'GameServerMetadata',
      properties: { ...metadata.properties, labels: serverData.labels, annotations: serverData.annotations },
    },
    status: {
      type: 'object',
      description: 'The current state of the server. Written by the leader.',
      required: ['state', 'health', 'publicIP', 'ports', 'nodeName'],
      properties: {
        state: { type: 'string', enum: serverStates, description: 'The lifecycle state of the server.' },
        health: { type: 'string', enum: healths, description: 'Unknown until the server sends its first heartbeat.' },
        publicIP: {
          type: 'string',
          mayBeEmpty: true,
          description: 'Address that players connect to. Empty until known.',
          examples: ['203.0.113.9'],
        },
        ports: {
          type: 'string',
          mayBeEmpty: true,
          pattern: '^(\\d+:\\d+(,\\d+:\\d+)*)?$',
          description: "Comma-separated `container:public` pairs, in the order of the build's portsToExpose.",
          examples: ['7777:10003'],
        },
        nodeName: {
          type: 'string',
          mayBeEmpty: true,
          description: 'Name of the machine that the server runs on. Empty until known.',
        },
        sessionID: {
          type: 'string',
          description: 'The session that the server is allocated to, or the first of them. Present only while Active.',
        },
        sessions: {
          type: 'array',
          description: 'All sessions, in the order in which they began. Present only while there is more than one.',
          items: {
            type: 'object',
            description: 'A session of the server.',
            required: ['sessionID', 'number'],
            properties: {
              sessionID: { type: 'string', description: 'The sessionID of the allocation.' },
              number: {
                type: 'integer',
                minimum: 1,
                description: 'Distinguishes it from every other session of this server.',
              },
            },
          },
        },
        reachedInitializingOn: { ...time, description: 'When the process was first seen running. RFC 3339, in UTC.' },
        reachedStandingByOn: { ...time, description: 'When the server was first standing by. RFC 3339, in UTC.' },
        reachedActiveOn: { ...time, description: 'When the server was allocated. RFC 3339, in UTC.' },
        nextScheduledMaintenance: {
          ...time,
          description: 'When announced maintenance of the server or its node begins. RFC 3339, in UTC.',
        },
        reservedUntil: {
          ...time,
          description: 'Until when the idle server is reserved. Absent if it is not. RFC 3339, in UTC.',
        },
        counters: serverData.counters,
        lists: serverData.lists,
        message: { type: 'string', description: 'Why the server is still Pending, or why it is Terminating.' },
      },
    },
  },
} as const satisfies ObjectSchema
