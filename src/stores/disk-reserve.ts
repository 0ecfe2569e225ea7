/**
 * Room for lmdb's data file to grow into, taken from the disk before lmdb needs it. Touches that file.
 *
 * lmdb does not bear a full disk: on a write that fails it composes its message in a buffer that is too small for it,
 * which can end the process. So zeros are written first where it may write next. If they do not fit, the write is
 * refused before lmdb hears of it.
 */
import type { RootDatabase } from 'lmdb'
import { closeSync, fstatSync, openSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { isObject } from '../rules/validation/problem.js'

/** Of a write its value counts; a removal has none. */
export interface RoomyWrite {
  readonly value?: string
}

/** A leaf and its copy, when it splits another, and what of the branches above falls to it. */
const pagesForWrite = 4
/** The rest of a transaction: the upper branches, the table of databases, the numbers set aside, the list of free pages. */
const pagesForCommit = 64
/** lmdb's list of free pages is rewritten with them and holds eight bytes for each. */
const pagesForListOfFree = (usedPages: number) => Math.ceil(usedPages / 256)
/** Only removals may use the last of the room, so that a full store can be emptied. */
const pagesForRemovals = 128
/** What is taken beyond the need, so that it is not taken often. */
const growthBytes = 2 * 1_024 * 1_024

export class DiskReserve {
  readonly #file: number

  /** For the environment that is open in the directory. */
  constructor(directory: string) {
    this.#file = openSync(join(directory, 'data.mdb'), 'r+')
  }

  /**
   * Makes room for the writes, and returns how many of them, from the first on, may be given to lmdb in one transaction.
   * Throws what the system says when there is not even room for the first. Blocks for a moment when it takes more.
   */
  make(root: RootDatabase, writes: readonly RoomyWrite[]): number {
    const { pageBytes, usedPages } = usage(root)
    const countFitting = () => fitting(writes, Math.floor(fstatSync(this.#file).size / pageBytes), usedPages, pageBytes)
    const before = countFitting()
    if (before === writes.length) return before
    try {
      this.#grow(root, endOf(writes, usedPages, pageBytes) * pageBytes + growthBytes)
    } catch (error) {
      const after = countFitting()
      if (after === 0) throw error
      // What fits goes ahead; the rest meets the same failure when its turn comes.
      return after
    }
    return writes.length
  }

  close(): void {
    closeSync(this.#file)
  }

  /** In a transaction, which writes nothing: so that no other writer of the file is at work meanwhile. */
  #grow(root: RootDatabase, bytes: number): void {
    const zeros = Buffer.alloc(256 * 1_024)
    root.transactionSync(() => {
      for (let size = fstatSync(this.#file).size; size < bytes;) {
        size += writeSync(this.#file, zeros, 0, Math.min(zeros.length, bytes - size), size)
      }
    })
  }
}

/** How many writes, from the first on, surely end within so many pages. */
function fitting(writes: readonly RoomyWrite[], pages: number, usedPages: number, pageBytes: number): number {
  let end = usedPages + pagesForCommit + pagesForListOfFree(usedPages)
  let reserve = 0
  for (const [i, write] of writes.entries()) {
    end += pagesOf(write, pageBytes)
    if (write.value !== undefined) reserve = pagesForRemovals
    if (end + reserve > pages) return i
  }
  return writes.length
}

/** Where all of them may end at the most. */
function endOf(writes: readonly RoomyWrite[], usedPages: number, pageBytes: number): number {
  const fixed = usedPages + pagesForCommit + pagesForListOfFree(usedPages) + pagesForRemovals
  return writes.reduce((end, write) => end + pagesOf(write, pageBytes), fixed)
}

function pagesOf({ value }: RoomyWrite, pageBytes: number): number {
  // A value of less than a quarter of a page shares one; at most three bytes encode a character.
  if (value === undefined || value.length * 3 < pageBytes / 4) return pagesForWrite
  return pagesForWrite + Math.ceil(Buffer.byteLength(value) / pageBytes) + 1
}

function usage(root: RootDatabase): { readonly pageBytes: number; readonly usedPages: number } {
  const stats: unknown = root.getStats()
  const { pageSize, lastPageNumber } = isObject(stats) ? stats : {}
  if (typeof pageSize !== 'number' || typeof lastPageNumber !== 'number') {
    throw new Error('lmdb does not say how many pages it uses')
  }
  return { pageBytes: pageSize, usedPages: lastPageNumber + 1 }
}
