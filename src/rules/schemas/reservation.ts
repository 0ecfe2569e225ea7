/** Schema of the request to reserve a server. */
import { maxReservationMs } from '../lifecycle/reservation.js'
import type { ObjectSchema } from './schema.js'

export const reservationRequest = {
  id: 'ReservationRequest',
  type: 'object',
  unknownFields: 'refuse',
  expected: 'an object with forMs',
  description: 'For how long to reserve a server.',
  required: ['forMs'],
  properties: {
    forMs: {
      type: 'integer',
      minimum: 1,
      maximum: maxReservationMs,
      description: `How long the server is reserved from now on, in ms, at most ${maxReservationMs} (7 days).`,
      examples: [3_600_000],
    },
  },
} as const satisfies ObjectSchema
