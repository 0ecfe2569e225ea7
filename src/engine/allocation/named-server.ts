/** The server of a request that names one, whether it is reserved or not. Such a request does not wait. */
import { FleetError } from '../../contracts/errors.js'
import { keyOf, type Ref } from '../../rules/model/resources.js'
import { isAllocatable } from '../../rules/planning/allocation.js'
import { fits, misfitOf, type Selection } from '../../rules/planning/selection.js'
import type { ServerEntry } from '../state/entries.js'
import type { Inventory } from '../state/inventory.js'
import { drainingError } from './allocation-errors.js'

/** Returns undefined if the server cannot be allocated to the request now. */
export function namedServer(
  inventory: Pick<Inventory, 'servers'>,
  ref: Ref,
  { change }: Selection,
): ServerEntry | undefined {
  const entry = inventory.servers.get(keyOf(ref))
  return entry && whyNot(entry) === undefined && fits(entry.record.data, anySelector, change) ? entry : undefined
}

/** The error for a request to which the server that it names cannot be allocated. */
export function namedServerError(inventory: Pick<Inventory, 'servers'>, ref: Ref, { change }: Selection): FleetError {
  const entry = inventory.servers.get(keyOf(ref))
  if (!entry || entry.record.state === 'Terminating') {
    return new FleetError('not-found', `server: there is no server ${keyOf(ref)}, or it is terminating`)
  }
  if (entry.build.draining) return drainingError(entry.build)
  const why = whyNot(entry) ?? misfitOf(entry.record.data, anySelector, change)
  return new FleetError('none-standing-by', `server ${keyOf(ref)} cannot be allocated to this request: ${why}`)
}

const anySelector = Object.freeze({})

function whyNot(entry: ServerEntry): string | undefined {
  const { build, places, record } = entry
  if (build.draining) return 'its build is draining'
  if (record.state === 'Active') return 'it has a session'
  if (record.state !== 'StandingBy') return `it is ${record.state}`
  if (places.length > 0) return 'it is being allocated'
  if (record.health === 'Unhealthy') return 'it is Unhealthy'
  return isAllocatable(record) ? undefined : 'its address is not known yet'
}
