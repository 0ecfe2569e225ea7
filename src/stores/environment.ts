/**
 * The lmdb environment of a file store: one file, with a database for each collection and one for data about the store
 * itself. Touches the directory through lmdb.
 *
 * Commits are flushed before they become visible (no `overlappingSync`), so everything that can be read survives a power
 * loss.
 */
import type { Database, RootDatabase } from 'lmdb'
import { FleetError, messageOf } from '../contracts/errors.js'
import { currentProcess, isAlive, type ProcessIdentity } from '../platform/process-identity.js'
import { isObject } from '../rules/validation/problem.js'
import type { CollectionName } from './failures.js'

export type Lmdb = Pick<typeof import('lmdb'), 'open'>

export interface Environment {
  readonly root: RootDatabase<string, string>
  /** Keys: `format`, `holder`, `versions`. */
  readonly about: Database<string, string>
}

export type Collections = Readonly<Record<CollectionName, Database<string, string>>>

export interface Claim {
  /** The previous holder, if it ended without releasing the directory. */
  readonly deadHolder: ProcessIdentity | undefined
  /** At least as high as the highest version ever assigned to a record. */
  readonly lastVersion: number
}

/** Data format of a directory. Increase it for changes that older code would misinterpret. */
const dataFormat = 1

/** Loaded on demand, so that importing gamekeeper does not require a native binary. */
export async function loadLmdb(): Promise<Lmdb> {
  try {
    return await import('lmdb')
  } catch (error) {
    const message = `the file store needs the package lmdb and its native binary, which cannot be loaded: ${messageOf(error)}`
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

/**
 * Makes this process the only writer of the directory. Uses one transaction, so that of two concurrent claims one fails. The
 * claim of a dead process is ignored. Throws `directory-in-use`, or `directory-unusable` if the data has a newer format.
 */
export function claim({ root, about }: Environment, directory: string): Claim {
  return root.transactionSync(() => {
    const format = Number(about.get('format') ?? dataFormat)
    if (format > dataFormat) {
      const message = `the directory ${directory} holds data of format ${format}, but this version of gamekeeper supports formats up to ${dataFormat}: use the version that wrote it or a later one`
      throw new FleetError('directory-unusable', message)
    }
    const holder = readHolder(about.get('holder'))
    if (holder && isAlive(holder)) {
      const who = holder.pid === process.pid ? `this process (${holder.pid})` : `process ${holder.pid}`
      throw new FleetError('directory-in-use', `the directory ${directory} is in use by ${who}`)
    }
    about.putSync('format', String(dataFormat))
    about.putSync('holder', JSON.stringify(currentProcess()))
    return { deadHolder: holder, lastVersion: Number(about.get('versions') ?? 0) }
  })
}

/** Allows another process to claim the directory. */
export function release({ root, about }: Environment): void {
  root.transactionSync(() => about.removeSync('holder'))
}

function readHolder(text: string | undefined): ProcessIdentity | undefined {
  if (text === undefined) return undefined
  const value: unknown = JSON.parse(text)
  if (!isObject(value)) return undefined
  const { pid, startedAt } = value
  return typeof pid === 'number' && typeof startedAt === 'string' ? { pid, startedAt } : undefined
}
