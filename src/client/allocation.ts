/** Converts the response to an allocation to what `fleet.allocate` returns. */
import { AllocatedServer, type Allocation } from '../contracts/sessions.js'
import { namedPorts } from '../rules/model/named-ports.js'
import type { AllocationBody } from '../rules/model/wire.js'

export function allocationFrom(body: AllocationBody): Allocation {
  if (body.details)
    return new AllocatedServer(body, body.details.server, body.details.ports, body.details.buildMismatch)
  // The host uses a compatibility format, which says neither the server's name nor the names of its ports.
  return new AllocatedServer(body, { namespace: '', name: '' }, namedPorts(pairsIn(body.Ports), new Map()))
}

function pairsIn(ports = '') {
  const pairs = ports === '' ? [] : ports.split(',')
  return pairs.map((pair) => {
    const [container, number] = pair.split(':').map(Number)
    return { container: container ?? 0, public: number ?? 0 }
  })
}
