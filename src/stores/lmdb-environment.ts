/**
 * The lmdb environment of a file store: one file, with a database for each collection and one for data about the store
 * itself. Touches the directory through lmdb.
 *
 * Commits are flushed before they become visible (no `overlappingSync`), so everything that can be read survives a power
 * loss.
 */
import type { Database, RootDatabase } from 'lmdb'
import { FleetError, messageOf } from '../contracts/errors.js'
import type { StoreCheck } from '../contracts/store.js'
import { isBundled, requireHere } from '../platform/packages.js'
import { keyOf, type Ref } from '../rules/model/resources.js'

export type Lmdb = Pick<typeof import('lmdb'), 'open'>

export interface LmdbEnvironment {
  /** Key: `contents`. */
  readonly root: RootDatabase<string, string>
  /** Keys: `format`, `holder`. */
  readonly about: Database<string, string>
}

export type Collections = Readonly<Record<CollectionName, Database<string, string>>>

export interface OpenEnvironment extends LmdbEnvironment {
  readonly collections: Collections
  /** The same databases, to write texts that are encoded already. */
  readonly bytes: Readonly<Record<CollectionName, Database<Uint8Array, string>>>
}

/**
 * Loaded on demand, so that importing gamekeeper does not require a native binary. Not by `import()`, which Jest refuses in CommonJS and by
 * which bundlers would take the package, but not its binary, into their bundles.
 */
export function loadLmdb(): Lmdb {
  try {
    const lmdb: Lmdb = requireHere()('lmdb')
    return lmdb
  } catch (error) {
    const hint = isBundled() ? '. This code is part of a bundle, beside which the package lmdb must be installed' : ''
    const message = `the file store needs the package lmdb and its native binary, which cannot be loaded: ${messageOf(error)}${hint}`
    throw new FleetError('internal', message, { cause: error })
  }
}

export function openEnvironment(lmdb: Lmdb, directory: string): LmdbEnvironment {
  const options = {
    // Otherwise lmdb treats a path that contains a dot as a file.
    noSubdir: false,
    maxDbs: 5,
    permissionsMode: 0o600,
    overlappingSync: false,
    // If true, lmdb creates promises whose rejection cannot be handled. The group writer does the batching instead.
    eventTurnBatching: false,
  }
  const root = lmdb.open<string, string>(directory, { ...options, encoding: 'string' })
  return { root, about: root.openDB<string, string>('about', { encoding: 'string' }) }
}

/** Call this after `claim`: nothing may be written to a directory that is in use or has a newer format. */
export function openCollections({ root }: LmdbEnvironment): Collections {
  const collection = (name: CollectionName) =>
    root.openDB<string, string>(name, { encoding: 'string', useVersions: true })
  return byName(collection)
}

/** As `openCollections`. */
export function openForWriting(environment: LmdbEnvironment): OpenEnvironment {
  const collection = (name: CollectionName) =>
    environment.root.openDB<Uint8Array, string>(name, { encoding: 'binary', useVersions: true })
  const collections = openCollections(environment)
  return { ...environment, collections, bytes: byName(collection) }
}

export const collectionNames = ['builds', 'servers', 'details', 'demand'] as const
export type CollectionName = (typeof collectionNames)[number]

export function byName<T>(of: (name: CollectionName) => T): Readonly<Record<CollectionName, T>> {
  return { builds: of('builds'), servers: of('servers'), details: of('details'), demand: of('demand') }
}

export function alreadyExists(collection: CollectionName, ref: Ref): FleetError {
  return new FleetError('conflict', `${collection}: record ${keyOf(ref)} already exists`)
}

export function revisionConflict(collection: CollectionName, ref: Ref): FleetError {
  return new FleetError('conflict', `${collection}: record ${keyOf(ref)} has changed since it was read`)
}

export function recordNotFound(collection: CollectionName, ref: Ref): FleetError {
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
export function failureReason(error: unknown): string {
  return messageOf(error).replace(/: Attempting to write page.*$/s, '')
}
