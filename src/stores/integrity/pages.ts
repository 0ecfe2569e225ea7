/** The pages of data.mdb, as lmdb 3 writes them: see `MDB_page`, `MDB_node` and `MDB_meta` in its mdb.c. Pure. */

/** Says what is damaged. */
export class StructureDamage extends Error {}

/** The pages of one database. `depth` is the number of pages from the root to a leaf. */
export interface Tree {
  readonly root: number
  readonly depth: number
}

export interface Meta {
  readonly pageSize: number
  /** Number of the last page that was ever used. */
  readonly lastPage: number
  /** Its records list the pages that are free. */
  readonly free: Tree
  readonly main: Tree
}

/** A value that is too long for its leaf. */
export interface Overflow {
  readonly page: number
  readonly pages: number
  /** With the header of the first page. */
  readonly bytes: number
}

export interface PageContents {
  readonly children: readonly Tree[]
  readonly trees: readonly Tree[]
  readonly overflows: readonly Overflow[]
  /** Short values. */
  readonly values: readonly Buffer[]
}

export const pageHeaderBytes = 24
/** The header of a page, and the meta data after it. */
export const metaBytes = pageHeaderBytes + 144

const [branch, leaf, overflow, meta] = [0x01, 0x02, 0x04, 0x08]
const kindMask = branch | leaf | overflow | meta | 0x60
const [isLong, isTree] = [0x01, 0x02]
const treeBytes = 48
const nodeHeaderBytes = 8
const longBytes = 24
/** lmdb's limit, with pages of 4 KiB. */
const maxKeyBytes = 1_978
const maxDepth = 32
/** Flags of a tree. lmdb-js has one of its own for records with versions. */
const [integerKeys, withVersions] = [0x08, 0x100]
/** The flags on which the structure depends: order, duplicates, a fixed address and encryption. */
const structureFlags = 0x207f

/** Throws StructureDamage unless this is the start of the first page. */
export function pageSizeOf(first: Buffer): number {
  const size = first.readUInt32LE(48)
  if (size < 512 || size > 65_536 || (size & (size - 1)) !== 0) throw new StructureDamage(`its page size is ${size}`)
  return size
}

/** Returns the newer one of the two meta pages, as lmdb chooses it. */
export function newestMeta(first: Buffer, second: Buffer, pageSize: number): Meta {
  const [firstCommit, secondCommit] = [first.readBigUInt64LE(152), second.readBigUInt64LE(152)]
  const index = firstCommit >= secondCommit ? 0 : 1
  const [newest, commit] = index === 0 ? [first, firstCommit] : [second, secondCommit]
  // lmdb then reads the page that belongs to the number of the commit.
  if (Number(commit & 1n) !== index || (newest.readUInt16LE(18) & kindMask) !== meta) {
    throw new StructureDamage(`header page ${index} is damaged`)
  }
  const [free, main] = [treeAt(newest, 48), treeAt(newest, 96)]
  if ((newest.readUInt16LE(52) & structureFlags) !== integerKeys)
    throw new StructureDamage('the flags of the free pages are damaged')
  if ((newest.readUInt16LE(100) & structureFlags) !== 0)
    throw new StructureDamage('the flags of the collections are damaged')
  return { pageSize, lastPage: numberAt(newest, 144), free, main }
}

/** Reads a page `depth` levels above the end of its tree, where 1 is a leaf. */
export function readPage(page: Buffer, number: number, depth: number): PageContents {
  const kind = kindOf(page, number)
  if (kind !== (depth === 1 ? leaf : branch)) throw new StructureDamage(`page ${number} is of another kind`)
  const [lower, upper] = [page.readUInt16LE(20), page.readUInt16LE(22)]
  const room = page.length - pageHeaderBytes
  if (lower % 2 !== 0 || lower === 0 || lower > upper || upper > room) {
    throw new StructureDamage(`the bounds of page ${number} are damaged`)
  }
  const contents = { children: [] as Tree[], trees: [] as Tree[], overflows: [] as Overflow[], values: [] as Buffer[] }
  for (let i = 0; i < lower / 2; i++) {
    const offset = page.readUInt16LE(pageHeaderBytes + 2 * i)
    const at = pageHeaderBytes + offset
    const node = offset < upper || at + nodeHeaderBytes > page.length ? undefined : nodeAt(page, at, depth > 1)
    if (!node || node.end > page.length) throw new StructureDamage(`record ${i} of page ${number} is damaged`)
    if (node.keyBytes > maxKeyBytes || (node.keyBytes === 0 && (depth === 1 || i > 0))) {
      throw new StructureDamage(`key ${i} of page ${number} is damaged`)
    }
    if (depth > 1) contents.children.push({ root: node.child, depth: depth - 1 })
    else if (node.flags === isTree && node.bytes === treeBytes) contents.trees.push(subtreeAt(page, node.data))
    else if (node.flags === isLong) contents.overflows.push(overflowAt(page, node.data, node.bytes))
    else if (node.flags === 0) contents.values.push(page.subarray(node.data, node.end))
    else throw new StructureDamage(`record ${i} of page ${number} is of an unknown kind`)
  }
  return contents
}

/** Checks the first page of a long value. */
export function checkOverflow(page: Buffer, { page: number, bytes }: Overflow, pageSize: number): void {
  if (kindOf(page, number) !== overflow) throw new StructureDamage(`page ${number} is of another kind`)
  if (page.readUInt32LE(20) * pageSize < bytes)
    throw new StructureDamage(`the long record on page ${number} is cut off`)
}

/** The pages that a record of free pages names. Ranges and gaps, which lmdb-js writes as numbers below 1, are left out. */
export function freePagesIn(value: Buffer): readonly number[] {
  const count = value.length < 8 ? Infinity : numberAt(value, 0)
  if ((count + 1) * 8 > value.length) throw new StructureDamage('a list of free pages is cut off')
  const pages: number[] = []
  for (let i = 1; i <= count; i++) {
    const page = Number(value.readBigInt64LE(8 * i))
    if (page > 0) pages.push(page)
  }
  return pages
}

interface Node {
  readonly flags: number
  readonly keyBytes: number
  /** Of a branch. */
  readonly child: number
  /** Where the value begins, how long it is, and where the node ends. */
  readonly data: number
  readonly bytes: number
  readonly end: number
}

function nodeAt(page: Buffer, at: number, isBranch: boolean): Node {
  const [bytes, flags, keyBytes] = [page.readUInt32LE(at), page.readUInt16LE(at + 4), page.readUInt16LE(at + 6)]
  const data = at + nodeHeaderBytes + keyBytes
  const stored = isBranch ? 0 : flags === isLong ? longBytes : bytes
  return { flags, keyBytes, child: bytes + flags * 2 ** 32, data, bytes, end: data + stored }
}

function kindOf(page: Buffer, number: number): number {
  if (numberAt(page, 0) !== number) throw new StructureDamage(`page ${number} is in the place of another`)
  return page.readUInt16LE(18) & kindMask
}

function overflowAt(page: Buffer, at: number, bytes: number): Overflow {
  return { page: numberAt(page, at), pages: numberAt(page, at + 16), bytes: pageHeaderBytes + bytes }
}

function subtreeAt(page: Buffer, at: number): Tree {
  if ((page.readUInt16LE(at + 4) & ~withVersions) !== 0)
    throw new StructureDamage('the flags of a collection are damaged')
  return treeAt(page, at)
}

function treeAt(page: Buffer, at: number): Tree {
  const [root, depth] = [numberAt(page, at + 40), page.readUInt16LE(at + 6)]
  const isEmpty = root === emptyRoot
  if (isEmpty ? depth !== 0 : depth === 0 || depth > maxDepth)
    throw new StructureDamage('the depth of a tree is damaged')
  return { root, depth }
}

/** What `numberAt` returns for the root of an empty tree. */
export const emptyRoot = Number(2n ** 64n - 1n)

function numberAt(page: Buffer, at: number): number {
  return page.readUInt32LE(at) + page.readUInt32LE(at + 4) * 2 ** 32
}
