/** Errors shared by the memory store and the file store. */
import { FleetError, messageOf } from '../contracts/errors.js'
import type { StoreCheck } from '../contracts/store.js'
import { keyOf, type Ref } from '../rules/model/resources.js'

export const collectionNames = ['builds', 'servers', 'details'] as const
export type CollectionName = (typeof collectionNames)[number]

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

export function storeDamaged(directory: string, { problems }: Pick<StoreCheck, 'problems'>): FleetError {
  const message = `the store in ${directory} is damaged: ${listed(problems)}; restore its whole directory from a backup`
  return new FleetError('directory-unusable', message)
}

const maxListed = 10

export function listed(problems: readonly string[]): string {
  const rest = problems.length - maxListed
  return problems.slice(0, maxListed).join('; ') + (rest > 0 ? `; and ${rest} more` : '')
}

/** The system's message without lmdb's suffix, which may contain uninitialized memory. */
export function reasonOf(error: unknown): string {
  return messageOf(error).replace(/: Attempting to write page.*$/s, '')
}
