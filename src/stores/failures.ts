/** The rejections that the two stores share, in one wording. */
import { FleetError, messageOf } from '../contracts/errors.js'
import { keyOf, type Ref } from '../rules/model/resources.js'

export type CollectionName = 'builds' | 'servers' | 'details'

export function taken(collection: CollectionName, ref: Ref): FleetError {
  return new FleetError('conflict', `${collection} already has a record ${keyOf(ref)}`)
}

export function changed(collection: CollectionName, ref: Ref): FleetError {
  return new FleetError('conflict', `the record ${keyOf(ref)} of ${collection} has changed since it was read`)
}

export function missing(collection: CollectionName, ref: Ref): FleetError {
  return new FleetError('not-found', `${collection} has no record ${keyOf(ref)}`)
}

export function storeClosed(): FleetError {
  return new FleetError('closed', 'the store is closed')
}

/** What the system said of a read or write. lmdb appends its own notes, of which some are not even initialized. */
export function reasonOf(error: unknown): string {
  return messageOf(error).replace(/: Attempting to write page.*$/s, '')
}
