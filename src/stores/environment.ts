/**
 * The lmdb environment of a file store: one file, with a database for each collection and one for data about the store
 * itself. Touches the directory through lmdb.
 *
 * Commits are flushed before they become visible (no `overlappingSync`), so everything that can be read survives a power
 * loss.
 */
import type { Database, RootDatabase } from 'lmdb'
import { FleetError, messageOf } from '../contracts/errors.js'
import { isBundled, requireHere } from '../platform/package-root.js'
import type { CollectionName } from './failures.js'

export type Lmdb = Pick<typeof import('lmdb'), 'open'>

export interface Environment {
  /** Key: `contents`. */
  readonly root: RootDatabase<string, string>
  /** Keys: `format`, `holder`. */
  readonly about: Database<string, string>
}

export type Collections = Readonly<Record<CollectionName, Database<string, string>>>

export interface OpenEnvironment extends Environment {
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

export function openEnvironment(lmdb: Lmdb, directory: string): Environment {
  const options = {
    // Otherwise lmdb treats a path that contains a dot as a file.
    noSubdir: false,
    maxDbs: 4,
    permissionsMode: 0o600,
    overlappingSync: false,
    // If true, lmdb creates promises whose rejection cannot be handled. The group writer does the batching instead.
    eventTurnBatching: false,
  }
  const root = lmdb.open<string, string>(directory, { ...options, encoding: 'string' })
  return { root, about: root.openDB<string, string>('about', { encoding: 'string' }) }
}

/** Call this after `claim`: nothing may be written to a directory that is in use or has a newer format. */
export function openCollections({ root }: Environment): Collections {
  const collection = (name: CollectionName) =>
    root.openDB<string, string>(name, { encoding: 'string', useVersions: true })
  return { builds: collection('builds'), servers: collection('servers'), details: collection('details') }
}

/** As `openCollections`. */
export function openForWriting(environment: Environment): OpenEnvironment {
  const collection = (name: CollectionName) =>
    environment.root.openDB<Uint8Array, string>(name, { encoding: 'binary', useVersions: true })
  const collections = openCollections(environment)
  const bytes = { builds: collection('builds'), servers: collection('servers'), details: collection('details') }
  return { ...environment, collections, bytes }
}
