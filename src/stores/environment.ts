/**
 * The lmdb environment of a file store: one file, a database for each collection and one for the store itself.
 * Touches the directory through lmdb.
 *
 * Commits are flushed before they are visible (no `overlappingSync`): whatever can be read survives a loss of power.
 */
import type { Database, RootDatabase } from 'lmdb'
import { isObject } from '../rules/validation/problem.js'
import { FleetError, messageOf } from '../contracts/errors.js'
import type { ProcessIdentity } from '../platform/process-identity.js'
import { currentProcess, isAlive } from '../platform/process-identity.js'
import type { CollectionName } from './failures.js'

export type Lmdb = Pick<typeof import('lmdb'), 'open'>

export interface Environment {
  readonly root: RootDatabase<string, string>
  /** What the store knows of itself: `format`, `holder`, `versions`. */
  readonly about: Database<string, string>
}

export type Collections = Readonly<Record<CollectionName, Database<string, string>>>

export interface Claim {
  /** The holder before, when it went without letting go. */
  readonly gone: ProcessIdentity | undefined
  /** Every version ever given to a record is below or equal. */
  readonly lastVersion: number
}

/** The format of the data in a directory. A change that older code would misread gets the next number. */
const dataFormat = 1

/** Loaded only here, so that importing gamekeeper does not load a native binary that may not be there. */
export async function loadLmdb(): Promise<Lmdb> {
  try {
    return await import('lmdb')
  } catch (error) {
    const message = `the file store needs the package lmdb with its native part, which cannot be loaded: ${messageOf(error)}`
    throw new FleetError('internal', message, { cause: error })
  }
}

export function openEnvironment(lmdb: Lmdb, directory: string): Environment {
  const options = {
    // A directory's name may hold a dot, which lmdb would else take for a file's.
    noSubdir: false,
    maxDbs: 4,
    permissionsMode: 0o600,
    overlappingSync: false,
    // With it lmdb makes promises of its own, whose rejection nobody can handle. The group writer batches instead.
    eventTurnBatching: false,
  }
  const root = lmdb.open<string, string>(directory, { ...options, encoding: 'string' })
  return { root, about: root.openDB<string, string>('about', { encoding: 'string' }) }
}

/** After `claim`, so that nothing is written to a directory of somebody else's or of a later format. */
export function openCollections({ root }: Environment): Collections {
  const collection = (name: CollectionName) =>
    root.openDB<string, string>(name, { encoding: 'string', useVersions: true })
  return { builds: collection('builds'), servers: collection('servers'), details: collection('details') }
}

/**
 * Makes this process the only writer of the directory, in one transaction: of two that try at once, one fails. A holder
 * that was killed holds nothing. Throws `directory-in-use`, or `directory-unusable` for data of a later format.
 */
export function claim({ root, about }: Environment, directory: string): Claim {
  return root.transactionSync(() => {
    const format = Number(about.get('format') ?? dataFormat)
    if (format > dataFormat) {
      const message = `the directory ${directory} holds data of format ${format}, and this gamekeeper knows up to ${dataFormat}: use the version that wrote it, or a later one`
      throw new FleetError('directory-unusable', message)
    }
    const holder = readHolder(about.get('holder'))
    if (holder && isAlive(holder)) {
      const who = holder.pid === process.pid ? `this process (${holder.pid})` : `process ${holder.pid}`
      throw new FleetError('directory-in-use', `the directory ${directory} is in use by ${who}`)
    }
    about.putSync('format', String(dataFormat))
    about.putSync('holder', JSON.stringify(currentProcess()))
    return { gone: holder, lastVersion: Number(about.get('versions') ?? 0) }
  })
}

/** Lets the next process in. */
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
