/**
 * Reserves disk space for lmdb's data file before lmdb needs it. Touches that file.
 *
 * lmdb cannot handle a full disk: after a failed write it composes the error message in a buffer that is too small, which
 * can end the process. So zeros are written first to where lmdb may write next. If they do not fit, the write is rejected
 * before it reaches lmdb.
 */
import { closeSync, fstatSync, openSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import type { RootDatabase } from 'lmdb'
import { isObject } from '../rules/validation/problem.js'

/** A write as far as its size matters; a removal has no value. */
export interface SizedWrite {
  readonly value?: string
}

/** A leaf, its split, and the write's share of the branch pages above. */
const pagesForWrite = 4
/** The rest of a transaction: upper branches, table of databases, reserved versions, list of free pages. */
const pagesForCommit = 64
/** lmdb rewrites its list of free pages, with eight bytes for each, in every transaction. */
const pagesForFreeList = (usedPages: number) => Math.ceil(usedPages / 256)
/** Reserved for removals, so that records can be deleted from a full store. */
const pagesForRemovals = 128
/** Reserved beyond the need, so that the file grows rarely. */
const growthBytes = 2 * 1_024 * 1_024

export class DiskReserve {
  readonly #file: number

  /** The directory's environment must be open. */
  constructor(directory: string) {
    this.#file = openSync(join(directory, 'data.mdb'), 'r+')
  }

  /**
   * Reserves space for the writes and returns how many of them, from the first on, fit into one transaction. Throws the
   * system's error when not even the first one fits. Blocks briefly while the file grows.
   */
  reserve(root: RootDatabase, writes: readonly SizedWrite[]): number {
    const { pageBytes, usedPages } = usage(root)
    const countFitting = () => fitting(writes, Math.floor(fstatSync(this.#file).size / pageBytes), usedPages, pageBytes)
    const before = countFitting()
    if (before === writes.length) return before
    try {
      this.#grow(root, endOf(writes, usedPages, pageBytes) * pageBytes + growthBytes)
    } catch (error) {
      const after = countFitting()
      if (after === 0) throw error
      // The writes that fit proceed; the rest gets this error in its own transaction.
      return after
    }
    return writes.length
  }

  close(): void {
    closeSync(this.#file)
  }

  /** Within an empty transaction, which keeps other writers out. */
  #grow(root: RootDatabase, bytes: number): void {
    const zeros = Buffer.alloc(256 * 1_024)
    root.transactionSync(() => {
      for (let size = fstatSync(this.#file).size; size < bytes;) {
        size += writeSync(this.#file, zeros, 0, Math.min(zeros.length, bytes - size), size)
      }
    })
  }
}

/** How many writes, from the first on, are certain to fit into so many pages. */
function fitting(writes: readonly SizedWrite[], pages: number, usedPages: number, pageBytes: number): number {
  let end = usedPages + pagesForCommit + pagesForFreeList(usedPages)
  let reservedPages = 0
  for (const [i, write] of writes.entries()) {
    end += pagesOf(write, pageBytes)
    if (write.value !== undefined) reservedPages = pagesForRemovals
    if (end + reservedPages > pages) return i
  }
  return writes.length
}

/** The page behind the last one that the writes may use. */
function endOf(writes: readonly SizedWrite[], usedPages: number, pageBytes: number): number {
  const fixed = usedPages + pagesForCommit + pagesForFreeList(usedPages) + pagesForRemovals
  return writes.reduce((end, write) => end + pagesOf(write, pageBytes), fixed)
}

function pagesOf({ value }: SizedWrite, pageBytes: number): number {
  // A value of less than a quarter of a page shares one; at most three bytes encode a character.
  if (value === undefined || value.length * 3 < pageBytes / 4) return pagesForWrite
  return pagesForWrite + Math.ceil(Buffer.byteLength(value) / pageBytes) + 1
}

function usage(root: RootDatabase): { readonly pageBytes: number; readonly usedPages: number } {
  const stats: unknown = root.getStats()
  const { pageSize, lastPageNumber } = isObject(stats) ? stats : {}
  if (typeof pageSize !== 'number' || typeof lastPageNumber !== 'number') {
    throw new Error('lmdb does not report how many pages it uses')
  }
  return { pageBytes: pageSize, usedPages: lastPageNumber + 1 }
}
