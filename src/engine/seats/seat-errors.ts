/** Creates the errors that calls about seats are rejected with. */
import { FleetError } from '../../contracts/errors.js'
import type { Seats } from '../../rules/lifecycle/server-sessions.js'
import { counted, shown } from '../../rules/validation/problem.js'
import { sizeLimits } from '../../rules/model/sizes.js'
import type { BuildEntry } from '../state/entries.js'

export function noSessionError(sessionID: string): FleetError {
  return new FleetError('not-found', `no server has the session ${shown(sessionID)}`)
}

export function sessionEndingError(sessionID: string): FleetError {
  return new FleetError('not-found', `session ${shown(sessionID)} has ended or is being ended`)
}

export function unknownSeatsError({ record }: BuildEntry): FleetError {
  return new FleetError(
    'invalid',
    `build ${record.name} does not say how many seats a session has; set its seatsPerSession`,
  )
}

export function unheardError(sessionID: string): FleetError {
  return new FleetError(
    'unavailable',
    `who plays in session ${shown(sessionID)} is not known for certain, because this host has not heard its game yet; retry soon`,
  )
}

export function fullError(sessionID: string, seats: Seats, needed: number, isTooLarge: boolean): FleetError {
  const need = `${counted(needed, 'player')} ${needed === 1 ? 'needs' : 'need'} one`
  const message = isTooLarge
    ? `session ${shown(sessionID)} can hold at most ${sizeLimits.heldSeats} seats at once, for ids of at most ${sizeLimits.heldSeatsBytes} bytes together`
    : `session ${shown(sessionID)} has ${counted(seats.free, 'free seat')} of ${seats.total}, but ${need}`
  return new FleetError('no-room', message, { details: { ...seats, needed } })
}

export function noSessionWithRoomError(needed: number): FleetError {
  const message = `no session that fits has ${counted(needed, 'free seat')}; retry, or allocate a server for a new one`
  return new FleetError('no-room', message, { details: { needed } })
}

export function drainingError(): FleetError {
  return new FleetError('draining', 'the fleet or every build that fits is draining, so players join no sessions')
}
