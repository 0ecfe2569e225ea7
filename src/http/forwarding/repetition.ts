/** Which requests may be sent again to another host after this one may have carried them out. */
import { FleetError } from '../../contracts/errors.js'
import type { LeaderLink } from '../../contracts/elector.js'
import type { Operation } from '../api/operations.js'

/** A session gets one server however often it is allocated, and a player one seat however often it is reserved. */
const idempotent: ReadonlySet<Operation['name']> = new Set([
  'allocate',
  'allocateMany',
  'reserveSeats',
  'releaseSeats',
  'joinSession',
])

/** Reading twice does no harm. A line that is sent twice is two commands. */
export function mayRepeat({ name, role }: Operation): boolean {
  return (role === 'read' && name !== 'writeStdin') || idempotent.has(name)
}

/** The next leader may do what this host could not, because it does not lead, or has stopped to meanwhile. */
export function isForNextLeader(error: unknown, link: LeaderLink): boolean {
  if (!FleetError.is(error)) return false
  return isElsewhere(error.code) || (error.code === 'unavailable' && !link.leads())
}

export function isElsewhere(code: string | undefined): boolean {
  return code === 'not-leader' || code === 'closed'
}
