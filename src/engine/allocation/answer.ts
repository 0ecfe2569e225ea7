/** Creates the answer to an allocation from the server that the session has. */
import type { Logger } from '../../contracts/logger.js'
import { AllocatedServer, type Allocation } from '../../contracts/sessions.js'
import type { AllocationRequest } from '../../rules/model/allocation-request.js'
import { sessionByKey } from '../../rules/lifecycle/server-sessions.js'
import { namedPorts } from '../../rules/model/ports.js'
import { sessionKey } from '../../rules/model/names.js'
import { portsOf } from '../../rules/model/wire.js'
import type { ServerEntry } from '../state/entries.js'

/** The session has a server, which may be of another build than the requested one. */
export function knownAllocation(logger: Logger, entry: ServerEntry, request: AllocationRequest): Allocation {
  const { buildID, sessionID } = request
  const session = sessionByKey(entry.record, sessionKey(sessionID))
  const allocation = allocationOf(entry, session?.id ?? sessionID, buildID)
  if (allocation.buildMismatch) {
    const { actual, requested } = allocation.buildMismatch
    logger.warn({ server: entry.record.name, sessionID, requested, actual }, 'session has a server of another build')
  }
  return allocation
}

/** True if the server has the session, and not only a reservation for it. */
export function hasSession({ record }: ServerEntry, key: string): boolean {
  return sessionByKey(record, key) !== undefined
}

/** `requestedBuildID` is given if the session may have a server of another build than the requested one. */
export function allocationOf(
  { build, record, ref }: ServerEntry,
  sessionID: string,
  requestedBuildID?: string,
): Allocation {
  const { buildID } = build.record.spec
  const isMismatch = requestedBuildID !== undefined && requestedBuildID !== buildID
  return new AllocatedServer(
    { IPV4Address: record.address ?? '', Ports: portsOf(record), SessionID: sessionID },
    ref,
    namedPorts(record.ports ?? [], build.gamePorts),
    isMismatch ? { requested: requestedBuildID, actual: buildID } : undefined,
  )
}
