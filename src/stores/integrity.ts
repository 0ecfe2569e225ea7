/**
 * What a file store contains: for each collection, how many records, and a digest of their keys and versions. Every transaction
 * updates it, so a record that has vanished, or is an older version, is noticed by the check of all records. Touches the given environment.
 */
import { closeSync, constants, fdatasync, readFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { promisify } from 'node:util'
import { crc32 } from 'node:zlib'
import type { RootDatabase, Transaction } from 'lmdb'
import type { DamagedRecord, RecordKind, ReplaceLost, StoreCheck } from '../contracts/store.js'
import { openRegularFile } from '../platform/files.js'
import { type Build, keyOf, type Server } from '../rules/model/resources.js'
import { counted, isObject } from '../rules/validation/problem.js'
import { dataFormat } from './directory-lock.js'
import {
  byName,
  type CollectionName,
  collectionNames,
  type Collections,
  failureReason,
  type LmdbEnvironment,
} from './lmdb-environment.js'

interface Tally {
  readonly count: number
  /** The sum of a hash of each key and version, modulo 2³². The order of the records does not matter. */
  readonly digest: number
}

export interface Contents extends Readonly<Record<CollectionName, Tally>> {
  /** The highest version ever assigned to a record. */
  readonly lastVersion: number
}

const emptyTally: Tally = { count: 0, digest: 0 }

/** The version is undefined for a key that has no record. */
export function tallied(tally: Tally, key: string, from: number | undefined, to: number | undefined): Tally {
  const countRecord = tally.count - (from === undefined ? 0 : 1) + (to === undefined ? 0 : 1)
  const digest = tally.digest - hashOf(key, from) + hashOf(key, to)
  return { count: countRecord, digest: digest >>> 0 }
}

/** Kept in the root database, whose page every transaction writes anyway. */
const contentsKey = 'contents'

export function writeContents(root: RootDatabase<string, string>, contents: Contents): Promise<boolean> {
  return root.put(contentsKey, sealRecord(contentsKey, 0, JSON.stringify(contents)))
}

/** Returns undefined if there are none. Throws if they are damaged. */
export function readContents(root: RootDatabase<string, string>, options?: ReadOptions): Contents | undefined {
  const text = root.get(contentsKey, options)
  if (text === undefined) return undefined
  const contents: unknown = JSON.parse(jsonOf(contentsKey, 0, text))
  // A collection that the list does not name had no record yet: this version has brought it.
  if (isContents(contents)) return { ...byName(() => emptyTally), ...contents }
  throw new Error('it lacks fields')
}

type ReadOptions = Parameters<RootDatabase<string, string>['get']>[1]

/** Counts the records. Throws lmdb's error if they cannot be read. */
export function countRecord(collections: Collections, leastVersion: number): Contents {
  let lastVersion = leastVersion
  const talliesOf = (name: CollectionName) => {
    let tally = emptyTally
    for (const { key, version = 0 } of collections[name].getRange({ versions: true })) {
      tally = tallied(tally, key, undefined, version)
      lastVersion = Math.max(lastVersion, version)
    }
    return tally
  }
  const tallies = byName(talliesOf)
  return { lastVersion, ...tallies }
}

/** Returns the store's contents, which a new store gets here. Returns undefined if they are damaged or missing. */
export function openContents({ root, about }: LmdbEnvironment, collections: Collections): Contents | undefined {
  return root.transactionSync(() => {
    try {
      const present = readContents(root)
      if (present) return present
    } catch {
      return undefined
    }
    const contents = countRecord(collections, 0)
    if (about.get('format') !== undefined || contents.lastVersion > 0) return undefined
    void writeContents(root, contents)
    about.putSync('format', String(dataFormat))
    return contents
  })
}

function isContents(value: unknown): value is Contents {
  if (!isObject(value) || typeof value['lastVersion'] !== 'number') return false
  return collectionNames.every((name) => value[name] === undefined || isObject(value[name]))
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

interface Checked extends LmdbEnvironment {
  readonly collections: Collections
}

const kinds: Readonly<Record<CollectionName, RecordKind>> = {
  builds: 'build',
  servers: 'server',
  details: 'detail',
  demand: 'demand',
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

interface Removal {
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
    let { lastVersion } = countRecord(collections, newestVersion)
    const builds: readonly Build[] = JSON.parse(`[${[...jsonIn(collections.builds)].join()}]`)
    const servers: readonly Server[] = JSON.parse(`[${[...jsonIn(collections.servers)].join()}]`)
    for (const build of replace(builds, servers)) {
      const [key, version] = [keyOf(build), ++lastVersion]
      collections.builds.putSync(key, sealRecord(key, version, JSON.stringify(build)), version)
    }
    const contents = countRecord(collections, lastVersion)
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

function contentsIn(root: LmdbEnvironment['root'], transaction: Transaction): Contents | undefined {
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
  readonly #usable = { build: 0, server: 0, detail: 0, demand: 0 }

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
      this.problems.push(`the ${name} cannot be read any further: ${failureReason(error)}`)
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
      const problem = failureReason(error)
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

// The checksum in front of each record: eight hexadecimal digits, then the record as JSON. It covers the key and the version, too, so that a
// record is not taken for another one or for an older version. Pure, except that `sealBytes` writes into bytes from `encode`.

const checksumLength = 8

export function sealRecord(key: string, version: number, json: string): string {
  return checksumOf(key, version, json) + json
}

/** Throws an error whose message says what is wrong with the record. */
function verify(key: string, version: number | undefined, text: string): void {
  const record: unknown = JSON.parse(jsonOf(key, version ?? 0, text))
  const { namespace, name } = isObject(record) ? record : {}
  if (typeof namespace === 'string' && typeof name === 'string' && keyOf({ namespace, name }) === key) return
  throw new Error('it is the record of another name')
}

/** Throws if the checksum does not match. */
export function jsonOf(key: string, version: number, text: string): string {
  const json = text.slice(checksumLength)
  if (text.slice(0, checksumLength) === checksumOf(key, version, json)) return json
  throw new Error('its checksum does not match')
}

function checksumOf(key: string, version: number, json: string): string {
  // One native call: each of them costs more than copying the text.
  const sum = crc32(prefixOf(key, version) + json)
  return sum.toString(16).padStart(checksumLength, '0')
}

function prefixOf(key: string, version: number): string {
  return `${key}\0${version}\0`
}

/** Small records share a buffer, since a buffer of its own would cost more than what it contains. */
const sharedBytes = 256 * 1_024
const hexDigits = Buffer.from('0123456789abcdef')
let shared = Buffer.alloc(0)
let used = 0

/**
 * Returns the JSON as UTF-8, with room for the checksum in front, for a write whose version is not known yet. So the text can be
 * collected while the write waits; a thousand texts that wait would cost more time in the garbage collector than the writes do. No one
 * else uses these bytes.
 */
export function encode(json: string): Uint8Array {
  // A UTF-16 unit takes at most three bytes.
  const mostBytes = checksumLength + json.length * 3
  if (mostBytes > sharedBytes / 8) return Buffer.from('0'.repeat(checksumLength) + json)
  if (shared.length - used < mostBytes) {
    shared = Buffer.allocUnsafeSlow(sharedBytes)
    used = 0
  }
  const start = used
  used += checksumLength
  used += shared.write(json, used)
  return shared.subarray(start, used)
}

/** Writes the checksum into bytes from `encode`. They are then those of `seal`. */
export function sealBytes(key: string, version: number, bytes: Uint8Array): void {
  let sum = crc32(bytes.subarray(checksumLength), crc32(prefixOf(key, version)))
  for (let i = checksumLength - 1; i >= 0; i--) {
    bytes[i] = hexDigits[sum & 0xf] ?? 0
    sum >>>= 4
  }
}

// The version of the newest record that was written, in a file beside the data. If the data are older than it, they were replaced by
// an older copy, or damage has hidden the newest transactions. Touches only this file.
//
// The file is not flushed, so a power loss may leave an older number in it, which hides nothing that it would otherwise show.

const fileName = 'newest-version'

export class NewestVersion {
  /** The number in the file, or 0 if there is none or it is damaged. */
  readonly found: number
  readonly path: string
  readonly #file: number | undefined
  #version: number
  #flushing: Promise<void> | undefined

  constructor(directory: string) {
    this.path = join(directory, fileName)
    this.#file = openOrCreate(this.path)
    this.found = this.#file === undefined ? 0 : read(this.#file)
    this.#version = this.found
  }

  /** If that fails, for example because the disk is full, the file keeps an older number. */
  write(version: number): void {
    this.#version = version
    try {
      this.#write()
    } catch {
      // The record itself is durable.
    }
  }

  /** Throws the system's error if the file system takes no writes, such as one that has turned read-only. A full disk does not count. */
  throwIfUnwritable(): void {
    try {
      this.#write()
    } catch (error) {
      if (!isFull(error)) throw error
    }
  }

  /** As `throwIfUnwritable`, and also if the device behind the file system takes none. */
  flush(): Promise<void> {
    // A disk that hangs must not take one thread of the runtime for each call.
    return (this.#flushing ??= this.#flush().finally(() => (this.#flushing = undefined)))
  }

  async #flush(): Promise<void> {
    this.throwIfUnwritable()
    if (this.#file !== undefined) await promisify(fdatasync)(this.#file)
  }

  #write(): void {
    if (this.#file === undefined) return
    // Always the same length, so that nothing of an older text remains.
    writeSync(this.#file, sealRecord(fileName, 0, `{"version":${String(this.#version).padStart(16)}}`), 0)
  }

  close(): void {
    if (this.#file !== undefined) closeSync(this.#file)
  }
}

/** Returns undefined if the disk is full or write-protected: the store then works without the file. */
function openOrCreate(path: string): number | undefined {
  try {
    return openRegularFile(path, constants.O_RDWR | constants.O_CREAT, 0o600)
  } catch {
    return undefined
  }
}

function isFull(error: unknown): boolean {
  return isObject(error) && (error['code'] === 'ENOSPC' || error['code'] === 'EDQUOT')
}

function read(file: number): number {
  try {
    const value: unknown = JSON.parse(jsonOf(fileName, 0, readFileSync(file, 'utf8')))
    return isObject(value) && typeof value['version'] === 'number' ? value['version'] : 0
  } catch {
    return 0
  }
}
