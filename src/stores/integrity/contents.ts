/**
 * What a file store contains: for each collection, how many records, and a digest of their keys and versions. Every transaction
 * updates it, so a record that has vanished, or is an older version, is noticed. Reads and writes lmdb only inside a transaction of
 * the caller.
 */
import type { RootDatabase } from 'lmdb'
import { isObject } from '../../rules/validation/problem.js'
import { dataFormat } from '../claim.js'
import type { Collections, Environment } from '../environment.js'
import { collectionNames, type CollectionName } from '../failures.js'
import { jsonOf, seal } from './record-text.js'

export interface Tally {
  readonly count: number
  /** The sum of a hash of each key and version, modulo 2³². The order of the records does not matter. */
  readonly digest: number
}

export interface Contents extends Readonly<Record<CollectionName, Tally>> {
  /** The highest version ever assigned to a record. */
  readonly lastVersion: number
}

export const emptyTally: Tally = { count: 0, digest: 0 }

/** The version is undefined for a key that has no record. */
export function tallied(tally: Tally, key: string, from: number | undefined, to: number | undefined): Tally {
  const count = tally.count - (from === undefined ? 0 : 1) + (to === undefined ? 0 : 1)
  const digest = tally.digest - hashOf(key, from) + hashOf(key, to)
  return { count, digest: digest >>> 0 }
}

/** Kept in the root database, whose page every transaction writes anyway. */
const contentsKey = 'contents'

export function writeContents(root: RootDatabase<string, string>, contents: Contents): Promise<boolean> {
  return root.put(contentsKey, seal(contentsKey, 0, JSON.stringify(contents)))
}

/** Returns undefined if there are none. Throws if they are damaged. */
export function readContents(root: RootDatabase<string, string>, options?: ReadOptions): Contents | undefined {
  const text = root.get(contentsKey, options)
  if (text === undefined) return undefined
  const contents: unknown = JSON.parse(jsonOf(contentsKey, 0, text))
  if (isContents(contents)) return contents
  throw new Error('it lacks fields')
}

type ReadOptions = Parameters<RootDatabase<string, string>['get']>[1]

/** Counts the records. Throws lmdb's error if they cannot be read. */
export function count(collections: Collections, leastVersion: number): Contents {
  let lastVersion = leastVersion
  const talliesOf = (name: CollectionName) => {
    let tally = emptyTally
    for (const { key, version = 0 } of collections[name].getRange({ versions: true })) {
      tally = tallied(tally, key, undefined, version)
      lastVersion = Math.max(lastVersion, version)
    }
    return tally
  }
  const [builds, servers, details] = [talliesOf('builds'), talliesOf('servers'), talliesOf('details')]
  return { lastVersion, builds, servers, details }
}

/** Returns the store's contents, which a new store gets here. Returns undefined if they are damaged or missing. */
export function openContents({ root, about }: Environment, collections: Collections): Contents | undefined {
  return root.transactionSync(() => {
    try {
      const present = readContents(root)
      if (present) return present
    } catch {
      return undefined
    }
    const contents = count(collections, 0)
    if (about.get('format') !== undefined || contents.lastVersion > 0) return undefined
    void writeContents(root, contents)
    about.putSync('format', String(dataFormat))
    return contents
  })
}

function isContents(value: unknown): value is Contents {
  if (!isObject(value) || typeof value['lastVersion'] !== 'number') return false
  return collectionNames.every((name) => isObject(value[name]))
}

/** FNV-1a of the key and the version, mixed so that sums of several hashes are not often equal. Native calls would cost more. */
function hashOf(key: string, version: number | undefined): number {
  if (version === undefined) return 0
  let hash = 0x811c_9dc5
  for (let i = 0; i < key.length; i++) hash = Math.imul(hash ^ key.charCodeAt(i), 0x0100_0193)
  hash = mixed(hash ^ (version >>> 0))
  return mixed(hash ^ Math.floor(version / 2 ** 32)) >>> 0
}

function mixed(value: number): number {
  let hash = value
  hash = Math.imul(hash ^ (hash >>> 16), 0x85eb_ca6b)
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2_ae35)
  return hash ^ (hash >>> 16)
}
