/** Checks every record of a file store, and removes damaged ones. Touches the given environment. */
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Transaction } from 'lmdb'
import type { DamagedRecord, RecordKind, ReplaceLost, StoreCheck } from '../../contracts/store.js'
import { type Build, keyOf, type Server } from '../../rules/model/resources.js'
import type { Collections, Environment } from '../environment.js'
import { collectionNames, reasonOf, type CollectionName } from '../failures.js'
import { type Contents, count, emptyTally, readContents, type Tally, tallied, writeContents } from './contents.js'
import { jsonOf, seal, verify } from './record-text.js'
import { counted } from '../../rules/model/counted.js'

export interface Checked extends Environment {
  readonly collections: Collections
}

export const kinds: Readonly<Record<CollectionName, RecordKind>> = {
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
