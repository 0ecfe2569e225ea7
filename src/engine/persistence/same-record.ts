/** Tells whether a record in the store is the one that this host has written. Pure. */
import { isSameData } from '../../rules/lifecycle/server-data.js'
import { isSameHolds } from '../../rules/lifecycle/seats.js'
import { isSameSessions } from '../../rules/lifecycle/sessions.js'
import type { Server } from '../../rules/model/resources.js'

/** Compares what a server's record says, except for times. */
export function isSameRecord(a: Server, b: Server): boolean {
  return (
    a.state === b.state &&
    a.health === b.health &&
    a.address === b.address &&
    a.node === b.node &&
    a.templateHash === b.templateHash &&
    JSON.stringify(a.ports) === JSON.stringify(b.ports) &&
    isSameSessions(a, b) &&
    isSameHolds(a.sessions[0]?.holds, b.sessions[0]?.holds) &&
    a.maintenance?.at === b.maintenance?.at &&
    a.maintenance?.source === b.maintenance?.source &&
    a.reservedUntil === b.reservedUntil &&
    isSameData(a.data, b.data) &&
    a.ending?.reason === b.ending?.reason
  )
}
