/** Announced maintenance: which times can be announced, and which of several announcements applies to a server. Pure. */
import { isDate } from '../model/realms.js'
import { draftOf, type Maintenance, type MaintenanceSource, type Server } from '../model/resources.js'
import { type Checked, invalid, shown, valid } from '../validation/problem.js'

const daysAhead = 365
const maxNoticeMs = daysAhead * 24 * 3_600_000

/**
 * Checks the time of an announcement, which game SDKs receive in whole seconds. Returns it in ms, rounded down to a second.
 */
export function checkMaintenanceTime(at: unknown, now: number): Checked<number> {
  const ms = isDate(at) ? at.getTime() : at
  if (typeof ms === 'number' && ms > now && ms <= now + maxNoticeMs) return valid(Math.floor(ms / 1000) * 1000)
  const found = typeof ms === 'number' && Math.abs(ms) <= 8.64e15 ? new Date(ms).toISOString() : shown(ms)
  return invalid('at', `must be a time in the future, at most ${daysAhead} days ahead, but is ${found}`)
}

/** An announcement for one server is more specific than one for its node, and an operator knows more than the backend. */
const precedence: Readonly<Record<MaintenanceSource, number>> = { server: 2, node: 1, backend: 0 }

/** Returns the announcement that applies after `next`. One that is in the past gives way to any other. */
export function afterAnnouncement(current: Maintenance | undefined, next: Maintenance, now: number): Maintenance {
  const outranks = current && current.at > now && precedence[current.source] > precedence[next.source]
  return outranks ? current : next
}

/** Returns the server with this announcement, or the same object if it has it. */
export function withMaintenance(server: Server, maintenance: Maintenance | undefined): Server {
  if (server.maintenance?.at === maintenance?.at && server.maintenance?.source === maintenance?.source) return server
  const next = draftOf(server)
  next.maintenance = maintenance
  return next
}
