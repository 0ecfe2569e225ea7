/** Creates the answer to an allocation from the server that the session has. */
import { AllocatedServer, type Allocation } from '../../contracts/sessions.js'
import { namedPorts } from '../../rules/model/named-ports.js'
import { portsOf } from '../../rules/model/wire.js'
import type { ServerEntry } from '../state/entries.js'

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
