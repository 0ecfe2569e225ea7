/** Converts the response to an allocation to what `fleet.allocate` returns. */
import { errorCodes, type ErrorDetails, FleetError } from '../contracts/errors.js'
import { AllocatedServer, type Allocation, type BatchResult } from '../contracts/sessions.js'
import { namedPorts } from '../rules/model/named-ports.js'
import type { AllocationBody } from '../rules/model/wire.js'

export function allocationFrom(body: AllocationBody): Allocation {
  if (body.details)
    return new AllocatedServer(body, body.details.server, body.details.ports, body.details.buildMismatch)
  // The host uses a compatibility format, which says neither the server's name nor the names of its ports.
  return new AllocatedServer(body, { namespace: '', name: '' }, namedPorts(pairsIn(body.Ports), new Map()))
}

export interface BatchBody {
  readonly results: readonly {
    readonly sessionID: string
    readonly allocation?: AllocationBody
    readonly error?: { readonly code: string; readonly message: string; readonly details?: ErrorDetails }
  }[]
}

export function batchResultFrom({ sessionID, allocation, error }: BatchBody['results'][number]): BatchResult {
  if (allocation) return { sessionID, allocation: allocationFrom(allocation) }
  const code = errorCodes.find((known) => known === error?.code) ?? 'internal'
  return { sessionID, error: new FleetError(code, error?.message ?? '', { details: error?.details }) }
}

function pairsIn(ports = '') {
  const pairs = ports === '' ? [] : ports.split(',')
  return pairs.map((pair) => {
    const [container, number] = pair.split(':').map(Number)
    return { container: container ?? 0, public: number ?? 0 }
  })
}
