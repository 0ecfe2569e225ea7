/** Creates the answer to an allocation from the server that the session has. */
import type { Logger } from '../../contracts/logger.js'
import { AllocatedServer, type Allocation } from '../../contracts/sessions.js'
import type { AllocationRequest } from '../../rules/model/allocation.js'
import { namedPorts } from '../../rules/model/named-ports.js'
import { portsOf } from '../../rules/model/wire.js'
import type { ServerEntry } from '../state/entries.js'

/** The session has a server, which may be of another build than the requested one. */
export function knownAllocation(logger: Logger, entry: ServerEntry, request: AllocationRequest): Allocation {
  const { buildID, sessionID } = request
  const allocation = allocationOf(entry, buildID)
  if (allocation.buildMismatch) {
    const { actual, requested } = allocation.buildMismatch
    logger.warn({ server: entry.record.name, sessionID, requested, actual }, 'session has a server of another build')
  }
  return allocation
}

/** `requestedBuildID` is given if the session may have a server of another build than the requested one. */
export function allocationOf({ build, record, ref }: ServerEntry, requestedBuildID?: string): Allocation {
  const { buildID } = build.record.spec
  const isMismatch = requestedBuildID !== undefined && requestedBuildID !== buildID
  return new AllocatedServer(
    { IPV4Address: record.address ?? '', Ports: portsOf(record), SessionID: record.session?.id ?? '' },
    ref,
    namedPorts(record.ports ?? [], build.gamePorts),
    isMismatch ? { requested: requestedBuildID, actual: buildID } : undefined,
  )
}
