/** Schema of the request to send a line to a game. */
import { sizeLimits } from '../model/sizes.js'
import type { ObjectSchema } from './schema.js'

export const stdinRequest = {
  id: 'StdinRequest',
  type: 'object',
  unknownFields: 'refuse',
  expected: 'an object with a line',
  description: 'A line for the standard input of a game.',
  required: ['line'],
  properties: {
    line: {
      type: 'string',
      mayBeEmpty: true,
      maxBytes: sizeLimits.stdinLineBytes,
      controls: 'none',
      description: `The line, of at most ${sizeLimits.stdinLineBytes} bytes of UTF-8. A line break at its end is optional.`,
      examples: ['say The match begins'],
    },
  },
} as const satisfies ObjectSchema
