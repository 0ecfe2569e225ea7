/** Validates requests to reserve a server. Pure. */
import { reservationRequest } from '../schemas/reservation.js'
import { compile, type Validator } from './validator.js'

export const readReservation: Validator<{ readonly forMs: number }> = compile(reservationRequest)
