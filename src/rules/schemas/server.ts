/** Schema of a GameServer. */
import { healths, serverStates } from '../model/resources.js'
import { apiVersion, metadata, time } from './common.js'
import type { ObjectSchema } from './schema.js'

export const gameServer = {
  id: 'GameServer',
  type: 'object',
  description: 'One game server.',
  required: ['apiVersion', 'kind', 'metadata', 'status'],
  properties: {
    apiVersion,
    kind: { type: 'string', const: 'GameServer', description: 'The type of the object.' },
    metadata,
    status: {
      type: 'object',
      description: 'The present state of the server. Written by the host that leads the fleet.',
      required: ['state', 'health', 'publicIP', 'ports', 'nodeName'],
      properties: {
        state: { type: 'string', enum: serverStates, description: 'Where the server is in its life.' },
        health: { type: 'string', enum: healths, description: 'Unknown until the first heartbeat.' },
        publicIP: {
          type: 'string',
          mayBeEmpty: true,
          description: 'Address that players connect to. Empty until it is known.',
          examples: ['203.0.113.9'],
        },
        ports: {
          type: 'string',
          mayBeEmpty: true,
          pattern: '^(\\d+:\\d+(,\\d+:\\d+)*)?$',
          description: "`container:public`, comma-separated, in the order of the build's portsToExpose.",
          examples: ['7777:10003'],
        },
        nodeName: {
          type: 'string',
          mayBeEmpty: true,
          description: 'Machine that it runs on. Empty until it is known.',
        },
        sessionID: { type: 'string', description: 'The session it was allocated to. Only while Active.' },
        reachedInitializingOn: { ...time, description: 'When its process was running. RFC 3339, in UTC.' },
        reachedStandingByOn: { ...time, description: 'When it was ready to be allocated. RFC 3339, in UTC.' },
        reachedActiveOn: { ...time, description: 'When it was allocated. RFC 3339, in UTC.' },
        message: { type: 'string', description: 'Why it is still Pending, or why it is Terminating.' },
      },
    },
  },
} as const satisfies ObjectSchema
