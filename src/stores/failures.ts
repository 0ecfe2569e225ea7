/** Errors shared by the memory store and the file store. */
import { FleetError, messageOf } from '../contracts/errors.js'
import { keyOf, type Ref } from '../rules/model/resources.js'

export type CollectionName = 'builds' | 'servers' | 'details'

export function alreadyExists(collection: CollectionName, ref: Ref): FleetError {
  return new FleetError('conflict', `${collection}: record ${keyOf(ref)} already exists`)
}

export function revisionConflict(collection: CollectionName, ref: Ref): FleetError {
  return new FleetError('conflict', `${collection}: record ${keyOf(ref)} has changed since it was read`)
}

export function notFound(collection: CollectionName, ref: Ref): FleetError {
  return new FleetError('not-found', `${collection}: no record ${keyOf(ref)}`)
}

export function storeClosed(): FleetError {
  return new FleetError('closed', 'the store is closed')
}

/** The system's message without lmdb's suffix, which may contain uninitialized memory. */
export function reasonOf(error: unknown): string {
  return messageOf(error).replace(/: Attempting to write page.*$/s, '')
}
