/**
 * What a file store contains: for each collection, how many records, and a digest of their keys and versions. Every transaction
 * updates it, so a record that has vanished, or is an older version, is noticed by the check of all records. Touches the given environment.
 */
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { RootDatabase, Transaction } from 'lmdb'
import type { DamagedRecord, RecordKind, ReplaceLost, StoreCheck } from '../../contracts/store.js'
import { counted } from '../../rules/model/counted.js'
import { type Build, keyOf, type Server } from '../../rules/model/resources.js'
import { isObject } from '../../rules/validation/problem.js'
import { dataFormat } from '../claim.js'
import type { Collections, Environment } from '../environment.js'
import { collectionNames, reasonOf, type CollectionName } from '../failures.js'
import { jsonOf, seal, verify } from './checksums.js'

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

export interface Checked extends Environment {
  readonly collections: Collections
}

const kinds: Readonly<Record<CollectionName, RecordKind>> = {
  builds: 'build',
  servers: 'server',
  details: 'detail',
}

/** Records per turn of the event loop. */
const sliceSize = 500

/**
 * Reads all records, as they are at one moment. `newestVersion`: the version of a record that was certainly written before.
 * Never rejects because of damage.
 */
export async function check({ root, collections }: Checked, newestVersion: number): Promise<StoreCheck> {
  const transaction = root.useReadTransaction()
  try {
    const contents = contentsIn(root, transaction)
    const found = new Findings()
    if (!contents) found.problems.push('the list of what the store contains is damaged or missing')
    for (const name of collectionNames) {
      const tally = await found.scan(name, collections[name], transaction)
      if (!contents) found.affected.add(kinds[name])
      else found.compare(name, tally, contents[name])
    }
    return found.result(contents ? Math.max(0, newestVersion - contents.lastVersion) : 0)
  } finally {
    transaction.done()
  }
}

export interface Removal {
  readonly damage: StoreCheck
  readonly newestVersion: number
  readonly replace: ReplaceLost
}

/**
 * Removes the damaged records and adds what replaces them, in one transaction: a host that dies in between would leave servers without
 * a build. Returns what the store then contains. Throws lmdb's error if it cannot be read.
 */
export function removeDamaged({ root, collections }: Checked, { damage, newestVersion, replace }: Removal): Contents {
  return root.transactionSync(() => {
    for (const name of collectionNames) {
      for (const { kind, key } of damage.damaged) if (kind === kinds[name]) collections[name].removeSync(key)
    }
    // A version that was assigned and then lost must not be assigned again.
    let { lastVersion } = count(collections, newestVersion)
    const builds: readonly Build[] = JSON.parse(`[${[...jsonIn(collections.builds)].join()}]`)
    const servers: readonly Server[] = JSON.parse(`[${[...jsonIn(collections.servers)].join()}]`)
    for (const build of replace(builds, servers)) {
      const [key, version] = [keyOf(build), ++lastVersion]
      collections.builds.putSync(key, seal(key, version, JSON.stringify(build)), version)
    }
    const contents = count(collections, lastVersion)
    void writeContents(root, contents)
    return contents
  })
}

/** Skips records that are damaged and cannot be removed, which the next check reports. */
function* jsonIn(records: Collections[CollectionName]): Generator<string> {
  for (const { key, value, version = 0 } of records.getRange({ versions: true })) {
    try {
      yield jsonOf(key, version, value)
    } catch {
      // Damaged.
    }
  }
}

function contentsIn(root: Environment['root'], transaction: Transaction): Contents | undefined {
  try {
    return readContents(root, { transaction })
  } catch {
    return undefined
  }
}

class Findings {
  readonly problems: string[] = []
  readonly affected = new Set<RecordKind>()
  readonly #damaged: DamagedRecord[] = []
  readonly #usable = { build: 0, server: 0, detail: 0 }

  /** Returns the tally of what is there, damaged records included. */
  async scan(name: CollectionName, records: Collections[CollectionName], transaction: Transaction): Promise<Tally> {
    let tally = emptyTally
    let left = sliceSize
    try {
      for (const { key, value, version } of records.getRange({ versions: true, transaction })) {
        tally = tallied(tally, key, undefined, version)
        this.#read(kinds[name], key, version, value)
        if (--left > 0) continue
        left = sliceSize
        await nextTurn()
      }
    } catch (error) {
      this.affected.add(kinds[name])
      this.problems.push(`the ${name} cannot be read any further: ${reasonOf(error)}`)
    }
    return tally
  }

  compare(name: CollectionName, found: Tally, expected: Tally): void {
    if (found.count === expected.count && found.digest === expected.digest) return
    this.affected.add(kinds[name])
    const missing = expected.count - found.count
    const wanted = counted(expected.count, kinds[name])
    if (missing > 0) this.problems.push(`${missing} of ${wanted} ${missing === 1 ? 'is' : 'are'} missing`)
    else if (missing < 0) this.problems.push(`found ${counted(found.count, kinds[name])} instead of ${expected.count}`)
    else this.problems.push(`the ${name} are not those that were written last`)
  }

  result(lostWrites: number): StoreCheck {
    if (lostWrites > 0) this.problems.push(lostWritesProblem(lostWrites))
    return {
      isWhole: this.problems.length === 0,
      problems: this.problems,
      damaged: this.#damaged,
      affected: [...this.affected],
      lostWrites,
      records: this.#usable,
    }
  }

  #read(kind: RecordKind, key: string, version: number | undefined, text: string): void {
    try {
      verify(key, version, text)
      this.#usable[kind]++
    } catch (error) {
      const problem = reasonOf(error)
      this.affected.add(kind)
      this.#damaged.push({ kind, key, problem })
      this.problems.push(`${kind} ${key} is damaged: ${problem}`)
    }
  }
}

function lostWritesProblem(lostWrites: number): string {
  const writes = lostWrites === 1 ? 'the newest write is' : `the newest ${lostWrites} writes are`
  return `${writes} missing: data.mdb was replaced by an older copy, or is damaged`
}
