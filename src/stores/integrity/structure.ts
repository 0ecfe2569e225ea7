/**
 * Checks the structure of data.mdb before lmdb opens it, because lmdb follows damaged page numbers and offsets and can then end the
 * process. Reads the pages that the newest commit reaches.
 */
import { closeSync, existsSync, fstatSync, openSync, readSync } from 'node:fs'
import { endianness } from 'node:os'
import { join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { storeDamaged } from '../failures.js'
import {
  checkOverflow,
  emptyRoot,
  freePagesIn,
  type Meta,
  metaBytes,
  newestMeta,
  type Overflow,
  pageHeaderBytes,
  pageSizeOf,
  readPage,
  StructureDamage,
  type Tree,
} from './pages.js'

/** How many pages a file may lack at its end: those that a commit took and freed again. Far more than one commit needs. */
const maxMissingPages = 65_536

/** Pages per turn of the event loop. */
const sliceSize = 256

/**
 * Throws `directory-unusable` with the first problem of the store in a directory. `original` is the directory that the message names. The
 * result is meaningless if a process writes to the file meanwhile.
 */
export async function checkStructure(directory: string, original = directory): Promise<void> {
  const path = join(directory, 'data.mdb')
  const problem = existsSync(path) ? await structureProblem(path) : undefined
  if (problem !== undefined) throw storeDamaged(original, { problems: [problem] })
}

/** Returns the first problem, or undefined. The caller makes sure that no process writes to the file. */
export async function structureProblem(path: string): Promise<string | undefined> {
  // lmdb writes numbers in the machine's byte order. Its binaries are for little-endian machines.
  if (endianness() === 'BE') return undefined
  const file = openSync(path, 'r')
  try {
    const { size } = fstatSync(file)
    // lmdb creates the file, or repeats an interrupted creation.
    if (size > 0) await new StructureCheck(file, size).run()
    return undefined
  } catch (error) {
    if (error instanceof StructureDamage) return `data.mdb is damaged: ${error.message}`
    throw error
  } finally {
    closeSync(file)
  }
}

class StructureCheck {
  readonly #file: number
  readonly #size: number
  #pageSize = 0
  #lastPage = 0
  /** One byte for each page of the file: 1 if it has been reached. */
  #reached = new Uint8Array()
  #left = sliceSize

  constructor(file: number, size: number) {
    this.#file = file
    this.#size = size
  }

  async run(): Promise<void> {
    const { pageSize, lastPage, free, main } = this.#readMeta()
    this.#pageSize = pageSize
    this.#lastPage = lastPage
    this.#reached = new Uint8Array(Math.floor(this.#size / pageSize))
    if (lastPage > this.#reached.length + maxMissingPages) {
      throw new StructureDamage(`its last page is ${lastPage}, but it has ${this.#reached.length} pages`)
    }
    await this.#walk(main, { containsTrees: true })
    const lists: (readonly number[])[] = []
    await this.#walk(free, { onValue: (value) => lists.push(freePagesIn(value)) })
    for (const page of lists.flat()) {
      if (page < 2 || page > lastPage || this.#reached[page] === 1) {
        throw new StructureDamage(`page ${page} is not free`)
      }
    }
  }

  #readMeta(): Meta {
    const first = this.#read(0, metaBytes)
    const pageSize = pageSizeOf(first)
    return newestMeta(first, this.#read(pageSize, metaBytes), pageSize)
  }

  async #walk({ root, depth }: Tree, options: WalkOptions): Promise<void> {
    if (root === emptyRoot) return
    const { containsTrees = false, onValue } = options
    const open = [{ root, depth }]
    for (let next = open.pop(); next; next = open.pop()) {
      this.#reach(next.root, 1)
      const page = this.#read(next.root * this.#pageSize, this.#pageSize)
      const { children, trees, overflows, values } = readPage(page, next.root, next.depth)
      if (trees.length > 0 && !containsTrees) throw new StructureDamage(`page ${next.root} contains trees`)
      open.push(...children)
      for (const value of values) onValue?.(value)
      for (const overflow of overflows) this.#readOverflow(overflow, onValue)
      for (const tree of trees) await this.#walk(tree, {})
      if (--this.#left > 0) continue
      this.#left = sliceSize
      await nextTurn()
    }
  }

  #readOverflow(overflow: Overflow, onValue: WalkOptions['onValue']): void {
    const { page, pages, bytes } = overflow
    this.#reach(page, pages)
    const data = this.#read(page * this.#pageSize, onValue ? bytes : pageHeaderBytes)
    checkOverflow(data, overflow, this.#pageSize)
    onValue?.(data.subarray(pageHeaderBytes))
  }

  #reach(first: number, count: number): void {
    const end = first + count
    if (count < 1 || first < 2 || end > this.#lastPage + 1 || end > this.#reached.length) {
      throw new StructureDamage(`pages ${first} to ${end - 1} are outside of the file`)
    }
    for (let page = first; page < end; page++) {
      if (this.#reached[page] === 1) throw new StructureDamage(`page ${page} is used twice`)
      this.#reached[page] = 1
    }
  }

  #read(from: number, length: number): Buffer {
    if (from + length > this.#size) throw new StructureDamage('the file is cut off')
    const data = Buffer.allocUnsafe(length)
    if (readSync(this.#file, data, 0, length, from) < length) throw new StructureDamage('the file is cut off')
    return data
  }
}

interface WalkOptions {
  /** Whether values may be the roots of other trees. */
  readonly containsTrees?: boolean
  readonly onValue?: (value: Buffer) => unknown
}
