/**
 * Reserves disk space for lmdb's data file before lmdb needs it. Touches only that file.
 *
 * lmdb cannot handle a full disk: after a failed write it writes the error message to a buffer that is too small, which can
 * end the process. So this class first writes zeros to the part of the file that lmdb may use next. If they do not fit, the
 * write is rejected before it reaches lmdb.
 */
import { closeSync, fstatSync, openSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import type { RootDatabase } from 'lmdb'
import { isObject } from '../rules/validation/problem.js'

/** The part of a write that determines its size. A removal has no value. */
export interface SizedWrite {
  readonly value?: Uint8Array
}

/** Pages for one record: a leaf, its split, and a share of the branch pages above it. */
const pagesForWrite = 4
/**
 * Pages for the rest of a transaction: upper branches, the table of databases, reserved versions and the list of free pages.
 */
const pagesForCommit = 64
/** lmdb rewrites its list of free pages in every transaction, with eight bytes for each free page. */
const pagesForFreeList = (usedPages: number) => Math.ceil(usedPages / 256)
/** Kept free for removals, so that records can be deleted when the disk is full. */
const pagesForRemovals = 128
/** Reserved in addition to what is needed, so that the file rarely has to grow. */
const growthBytes = 2 * 1_024 * 1_024

export class DiskReserve {
  readonly #file: number

  /** The directory's environment must already be open. */
  constructor(directory: string) {
    this.#file = openSync(join(directory, 'data.mdb'), 'r+')
  }

  /**
   * Reserves space for the writes. Returns how many of them, counted from the first, fit into one transaction. Throws the
   * system's error if not even the first fits. Blocks briefly while the file grows.
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
      // The writes that fit proceed. The others fail with this error in their own transaction.
      return after
    }
    return writes.length
  }

  close(): void {
    closeSync(this.#file)
  }

  /** Runs in an empty transaction, which keeps other writers out. */
  #grow(root: RootDatabase, bytes: number): void {
    const zeros = Buffer.alloc(256 * 1_024)
    root.transactionSync(() => {
      for (let size = fstatSync(this.#file).size; size < bytes;) {
        size += writeSync(this.#file, zeros, 0, Math.min(zeros.length, bytes - size), size)
      }
    })
  }
}

/** Returns how many writes, counted from the first, are certain to fit into this many pages. */
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

/** The page after the last one that the writes may use. */
function endOf(writes: readonly SizedWrite[], usedPages: number, pageBytes: number): number {
  const fixed = usedPages + pagesForCommit + pagesForFreeList(usedPages) + pagesForRemovals
  return writes.reduce((end, write) => end + pagesOf(write, pageBytes), fixed)
}

function pagesOf({ value }: SizedWrite, pageBytes: number): number {
  // A value smaller than a quarter of a page shares a page.
  if (value === undefined || value.length < pageBytes / 4) return pagesForWrite
  return pagesForWrite + Math.ceil(value.length / pageBytes) + 1
}

function usage(root: RootDatabase): { readonly pageBytes: number; readonly usedPages: number } {
  const stats: unknown = root.getStats()
  const { pageSize, lastPageNumber } = isObject(stats) ? stats : {}
  if (typeof pageSize !== 'number' || typeof lastPageNumber !== 'number') {
    throw new Error('lmdb does not report how many pages it uses')
  }
  return { pageBytes: pageSize, usedPages: lastPageNumber + 1 }
}
