/** Schemas of a drain: the request and the response. */
import { count } from './common.js'
import type { ObjectSchema } from './schema.js'

export const drainRequest = {
  id: 'DrainRequest',
  type: 'object',
  unknownFields: 'refuse',
  expected: 'an object such as {}',
  description: 'How to drain.',
  properties: {
    active: {
      type: 'string',
      enum: ['wait', 'terminate'],
      description:
        'What happens to Active servers. `wait` (default): they finish their matches. `terminate`: they are terminated, each with its whole grace period.',
    },
    deadlineMs: {
      type: 'number',
      minimum: 0,
      description: 'Time in ms after which to stop waiting for the servers. Default: wait without limit.',
      examples: [60_000],
    },
  },
} as const satisfies ObjectSchema

export const drainResult = {
  id: 'DrainResult',
  type: 'object',
  description: 'The result of a drain.',
  required: ['remaining'],
  properties: {
    remaining: {
      ...count,
      description: 'Number of servers left: those with a match at the deadline, or all if the drain was ended.',
    },
  },
} as const satisfies ObjectSchema
